import { HttpError, SqlError, StreamError, TransportError } from '../base/errors.ts'
import { RETRY_BUDGET, RETRY_DELAY_MS } from '../base/limits.ts'

/**
 * Decides what may be sent again: what provably never ran, and reads. The budget is shared by all calls of a client, so
 * that a server in trouble does not get all of its load twice.
 */
export class RetryPolicy {
  readonly #maxRetries: number
  #budget = RETRY_BUDGET

  constructor(maxRetries: number) {
    this.#maxRetries = maxRetries
  }

  /** A call that went well earns back a part of the budget. */
  succeeded(): void {
    this.#budget = Math.min(RETRY_BUDGET, this.#budget + 0.1)
  }

  /**
   * How long to wait before sending again, in ms; null when it must not be.
   * @param attempt from 0 @param isIdempotent whether the request may run twice
   */
  delayMs(error: unknown, attempt: number, isIdempotent?: boolean): number | null {
    if (attempt >= this.#maxRetries || this.#budget < 1 || !isRetryable(error, isIdempotent)) return null
    this.#budget -= 1
    return (error instanceof HttpError && error.retryAfterMs) || backoffMs(attempt)
  }
}

function isRetryable(error: unknown, isIdempotent?: boolean): boolean | undefined {
  if (error instanceof TransportError) {
    return error.code === 'NETWORK' && (isIdempotent || error.outcome === 'not_applied')
  }
  return (
    error instanceof HttpError &&
    (error.status === 429 || (isIdempotent && error.status >= 502 && error.status <= 504))
  )
}

/** Whether a transaction failed, and kept nothing, for a transient reason. */
export function isTransient(error: unknown): boolean {
  if (error instanceof SqlError) return /^(SQLITE_BUSY|TRANSACTION_)/.test(error.code)
  if (error instanceof HttpError) return error.status === 429 && error.outcome === 'not_applied'
  return error instanceof StreamError && error.code.startsWith('TRANSACTION_')
}

/** Doubles with each attempt, up to a limit; a random half of it keeps clients from coming back all at once. */
export function backoffMs(attempt: number, firstMs = RETRY_DELAY_MS, longestMs = 1_000): number {
  return Math.min(firstMs * 2 ** attempt, longestMs) * (0.5 + Math.random() / 2)
}
