import type { PlatformError } from './platform-error.ts'

/** First and longest delay before a retry, in ms. */
const FIRST_DELAY_MS = 500
const LONGEST_DELAY_MS = 8_000

/** Longest delay that the service may request, in ms. If it requests more, the call fails and the caller decides. */
const LONGEST_RETRY_AFTER_MS = 60_000

/** Statuses after which only idempotent requests are retried. 429 is not one of them: it means that the request was not executed. */
const TRANSIENT_STATUSES = [408, 502, 503, 504]

/**
 * Returns the delay before a retry, in ms; null if the request is not retried. A conflict (409) is never retried, because the
 * resource already exists or its state forbids the request. A creation, especially of a token, is retried only if it was certainly
 * not executed.
 * @param attempt from 1
 */
export function retryDelayMs(error: PlatformError, isIdempotent: boolean, attempt: number): number | null {
  const { code, status, outcome, retryAfterMs } = error
  const isSafe = status === 429 || (code === 'NETWORK' && outcome === 'not_applied')
  const isTransient = code === 'NETWORK' || TRANSIENT_STATUSES.includes(status ?? 0)
  if (!isSafe && !(isIdempotent && isTransient)) return null
  if (retryAfterMs !== null) return retryAfterMs <= LONGEST_RETRY_AFTER_MS ? retryAfterMs : null
  return Math.random() * Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), LONGEST_DELAY_MS)
}

/** Returns the delay that a response requests with `retry-after-ms` or `retry-after`, in ms; null if there is none. */
export function readRetryAfter(headers: Readonly<Record<string, string>>): number | null {
  const text = headers['retry-after']
  const ms = parsePositive(headers['retry-after-ms']) ?? parsePositive(text, 1_000)
  if (ms !== null) return ms
  // an HTTP date begins with a weekday; `Date.parse` also accepts other text, such as a negative number
  const retryAt = text !== undefined && /^[a-z]/i.test(text) ? Date.parse(text) : Number.NaN
  // relative to the service's clock, if it sends the time
  const now = Date.parse(headers['date'] ?? '') || Date.now()
  return Number.isNaN(retryAt) ? null : Math.max(0, retryAt - now)
}

function parsePositive(text = '', factor = 1): number | null {
  const number = text.trim() === '' ? Number.NaN : Number(text) * factor
  return number >= 0 && number < Infinity ? number : null
}
