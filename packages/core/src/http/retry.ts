import { HttpError, SqlError, StreamError, TransportError } from '../base/errors.ts'
import { RETRY_BUDGET, RETRY_DELAY_MS } from '../base/limits.ts'

/**
 * Decides which requests are retried: reads, and those that were provably not executed. All calls of a client share a budget,
 * so that a failing server does not receive all of its load twice.
 */
export class RetryPolicy {
  readonly #maxRetries: number
  #budget = RETRY_BUDGET

  constructor(maxRetries: number) {
    this.#maxRetries = maxRetries
  }

  /** Restores part of the budget after a successful call. */
  succeeded(): void {
    this.#budget = Math.min(RETRY_BUDGET, this.#budget + 0.1)
  }

  /**
   * Decides on a retry, and takes it from the budget. @returns the delay before it in ms; null if the request is not retried
   * @param attempt from 0
   * @param isIdempotent whether the request may be executed twice
   * @param remainingMs time until the deadline, before which the delay must end
   */
  // oxlint-disable-next-line max-params
  takeRetry(
    error: unknown,
    attempt: number,
    isIdempotent: boolean | undefined,
    remainingMs: number,
  ): number | null {
    if (attempt >= this.#maxRetries || this.#budget < 1 || !isRetryable(error, isIdempotent)) return null
    const delayMs = (error instanceof HttpError && error.retryAfterMs) || backoffMs(attempt)
    if (delayMs >= remainingMs) return null
    this.#budget -= 1
    return delayMs
  }
}

/** Text of the HTTP 500 with which a libsql-server replica rejects reads until it has received the database. */
const REPLICA_NOT_READY = 'none given'

function isRetryable(error: unknown, isIdempotent: boolean | undefined): boolean | undefined {
  if (error instanceof TransportError) {
    return error.code === 'NETWORK' && (isIdempotent || error.outcome === 'not_applied')
  }
  if (!(error instanceof HttpError)) return false
  if (error.status === 429) return true
  return isIdempotent && (error.status >= 502 || error.body.includes(REPLICA_NOT_READY))
}

/** Whether a transaction failed for a transient reason and kept nothing. */
export function isTransient(error: unknown): boolean {
  if (error instanceof SqlError) return /^(SQLITE_BUSY|TRANSACTION_)/.test(error.code)
  if (error instanceof HttpError) return error.status === 429 && error.outcome === 'not_applied'
  return error instanceof StreamError && error.code.startsWith('TRANSACTION_')
}

/** Returns the delay of an attempt in ms: doubled each time up to a limit, with jitter so that clients do not retry in step. */
export function backoffMs(attempt: number, firstMs = RETRY_DELAY_MS, longestMs = 1_000): number {
  return Math.min(firstMs * 2 ** attempt, longestMs) * (0.5 + Math.random() / 2)
}
