import { ConnectionError, type PlatformError } from './platform-errors.ts'

/** Wait before the first repetition, and the longest, in ms. */
const FIRST_DELAY_MS = 500
const LONGEST_DELAY_MS = 8_000

/** Longest wait that the service may ask for, in ms. Asked for more, the call fails, and the caller decides. */
const LONGEST_RETRY_AFTER_MS = 60_000

/** What is known of a request when it is to be sent again. */
export interface RetryCall {
  /** Whether it does no harm to run it twice. */
  readonly isRepeatable: boolean
  /** From 0. */
  readonly attempt: number
  readonly maxRetries: number
}

/**
 * How long to wait before a request is sent again, in ms; null when it must not be. A conflict (409) is never repeated:
 * here it means that there is one already. What makes something, a token above all, only when it certainly was not done.
 */
export function retryDelayMs(error: PlatformError, call: RetryCall): number | null {
  if (call.attempt >= call.maxRetries || !mayRepeat(error, call.isRepeatable)) return null
  const { retryAfterMs } = error
  if (retryAfterMs !== null) return retryAfterMs <= LONGEST_RETRY_AFTER_MS ? retryAfterMs : null
  return Math.random() * Math.min(FIRST_DELAY_MS * 2 ** call.attempt, LONGEST_DELAY_MS)
}

function mayRepeat(error: PlatformError, isRepeatable: boolean): boolean {
  const { status } = error
  if (error instanceof ConnectionError) return isRepeatable || error.outcome === 'not_applied'
  return status === 429 || (isRepeatable && (status === 408 || (status !== null && isGatewayStatus(status))))
}

const isGatewayStatus = (status: number): boolean => status >= 502 && status <= 504

/** How long an answer asks to wait, in ms; null when it does not say. */
export function readRetryAfter(headers: Readonly<Record<string, string>>): number | null {
  const milliseconds = positive(headers['retry-after-ms'])
  if (milliseconds !== null) return milliseconds
  const text = headers['retry-after']
  const seconds = positive(text)
  if (seconds !== null) return seconds * 1_000
  const at = Date.parse(text ?? '')
  // by the service's own clock, where it tells the time
  const now = Date.parse(headers['date'] ?? '') || Date.now()
  return Number.isNaN(at) ? null : Math.max(0, at - now)
}

function positive(text: string | undefined): number | null {
  const number = text === undefined || text.trim() === '' ? Number.NaN : Number(text)
  return number >= 0 && number < Infinity ? number : null
}

/** Codes of runtimes for connections that were never made. */
const NOT_CONNECTED =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused)$/

/** Whether a failure of `fetch` says that no connection was made, so that nothing has arrived. */
export function wasNeverConnected(failure: unknown): boolean {
  let error = failure
  for (let depth = 0; depth < 5 && typeof error === 'object' && error !== null; depth++) {
    const { code, syscall, cause, errors } = error as {
      code?: unknown
      syscall?: unknown
      cause?: unknown
      errors?: unknown[]
    }
    // a host can become unreachable in the middle of a connection, too
    const isInMiddle = String(code).endsWith('UNREACH') && syscall !== 'connect'
    if (NOT_CONNECTED.test(String(code)) && !isInMiddle) return true
    error = cause ?? errors?.[0]
  }
  return false
}
