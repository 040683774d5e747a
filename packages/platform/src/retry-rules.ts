import type { PlatformError } from './platform-error.ts'

/** Wait before the first repetition, and the longest, in ms. */
const FIRST_DELAY_MS = 500
const LONGEST_DELAY_MS = 8_000

/** Longest wait that the service may ask for, in ms. Asked for more, the call fails, and the caller decides. */
const LONGEST_RETRY_AFTER_MS = 60_000

/** Statuses after which only what does no harm twice is sent again. 429 was certainly not done. */
const TRANSIENT = [408, 502, 503, 504]

/**
 * How long to wait before a request is sent again, in ms; null when it must not be. A conflict (409) is never repeated:
 * here it means that there is one already. What makes something, a token above all, only when it certainly was not done.
 * @param attempt from 1
 */
export function retryDelayMs(error: PlatformError, isRepeatable: boolean, attempt: number): number | null {
  const { code, status, outcome, retryAfterMs } = error
  const isSafe = status === 429 || (code === 'NETWORK' && outcome === 'not_applied')
  const isTransient = code === 'NETWORK' || TRANSIENT.includes(status ?? 0)
  if (!isSafe && !(isRepeatable && isTransient)) return null
  if (retryAfterMs !== null) return retryAfterMs <= LONGEST_RETRY_AFTER_MS ? retryAfterMs : null
  return Math.random() * Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), LONGEST_DELAY_MS)
}

/** How long an answer asks to wait, in ms; null when it does not say. */
export function readRetryAfter(headers: Readonly<Record<string, string>>): number | null {
  const text = headers['retry-after']
  const ms = positive(headers['retry-after-ms']) ?? positive(text, 1_000)
  if (ms !== null) return ms
  const at = Date.parse(/^[a-z]/i.exec(text ?? '')?.input ?? '')
  // by the service's own clock, where it tells the time
  const now = Date.parse(headers['date'] ?? '') || Date.now()
  return Number.isNaN(at) ? null : Math.max(0, at - now)
}

function positive(text = '', factor = 1): number | null {
  const number = text.trim() === '' ? Number.NaN : Number(text) * factor
  return number >= 0 && number < Infinity ? number : null
}

/** Codes of runtimes for connections that were never made. */
const NOT_CONNECTED =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused)$/

/** What a failure of `fetch` comes from: it stands one or two levels down. An error may have itself as its cause. */
export function causesOf(failure: unknown): readonly unknown[] {
  const causes = [failure]
  for (let depth = 0; depth < 5; depth++) {
    const { cause, errors } = (causes.at(-1) ?? {}) as { cause?: unknown; errors?: unknown[] }
    const inner = cause ?? errors?.[0]
    if (!(inner instanceof Error)) break
    causes.push(inner)
  }
  return causes
}

/** Whether a failure of `fetch` says that no connection was made, so that nothing has arrived. */
export const wasNeverConnected = (failure: unknown): boolean =>
  causesOf(failure).some((error) => {
    const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown }
    // a host can become unreachable in the middle of a connection, too
    const isInMiddle = String(code).endsWith('UNREACH') && syscall !== 'connect'
    return NOT_CONNECTED.test(String(code)) && !isInMiddle
  })
