import type { PlatformError } from './platform-error.ts'

/** First and longest delay before a retry, in ms. */
const FIRST_DELAY_MS = 500
const LONGEST_DELAY_MS = 8_000

/** Longest delay that the service may request, in ms. If it requests more, the call fails and the caller decides. */
const LONGEST_RETRY_AFTER_MS = 60_000

/** Statuses after which only idempotent requests are retried. A request with status 429 was certainly not executed. */
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

/** Returns the delay that a response requests, in ms; null if there is none. */
export function readRetryAfter(headers: Readonly<Record<string, string>>): number | null {
  const text = headers['retry-after']
  const ms = parsePositive(headers['retry-after-ms']) ?? parsePositive(text, 1_000)
  if (ms !== null) return ms
  const retryAt = Date.parse(/^[a-z]/i.exec(text ?? '')?.input ?? '')
  // relative to the service's clock, if it sends the time
  const now = Date.parse(headers['date'] ?? '') || Date.now()
  return Number.isNaN(retryAt) ? null : Math.max(0, retryAt - now)
}

function parsePositive(text = '', factor = 1): number | null {
  const number = text.trim() === '' ? Number.NaN : Number(text) * factor
  return number >= 0 && number < Infinity ? number : null
}

/** Error codes of runtimes for connections that were never made. */
const NOT_CONNECTED_CODES =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused)$/

/** Returns the causes of a failure of `fetch`, which are nested one or two levels deep. An error may be its own cause. */
export function listCauses(failure: unknown): readonly unknown[] {
  const causes = [failure]
  for (let depth = 0; depth < 5; depth++) {
    const { cause, errors } = (causes.at(-1) ?? {}) as { cause?: unknown; errors?: unknown[] }
    const inner = cause ?? errors?.[0]
    if (!(inner instanceof Error)) break
    causes.push(inner)
  }
  return causes
}

/** Whether a failure of `fetch` means that no connection was made, so that nothing can have arrived. */
export const wasNeverConnected = (failure: unknown): boolean =>
  listCauses(failure).some((error) => {
    const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown }
    // a host can also become unreachable during a connection
    const isDuringConnection = String(code).endsWith('UNREACH') && syscall !== 'connect'
    return NOT_CONNECTED_CODES.test(String(code)) && !isDuringConnection
  })
