/** What may be done with a request that gets no answer, or that nobody waits for any more. */
export interface RequestPolicy {
  /** Whether it may be sent again after it may have run. */
  readonly isIdempotent: boolean
  /**
   * Whether it is left to finish when its call is aborted, so that its stream can be closed: the server would hold the write
   * lock for the rest of its 5 s otherwise.
   */
  readonly keepRunning: boolean
  /** Whether it goes on while the client is being closed. */
  readonly outlivesClient: boolean
}

/** Changes nothing, and does not continue a stream. */
export const READ: RequestPolicy = { isIdempotent: true, keepRunning: false, outlivesClient: false }
/** May hold or acquire the write lock. */
export const WRITE: RequestPolicy = { isIdempotent: false, keepRunning: true, outlivesClient: false }
/** Continues a stream that does not hold the write lock. */
export const CONTINUE: RequestPolicy = { isIdempotent: false, keepRunning: false, outlivesClient: false }
/** Closes a stream. */
export const CLOSE: RequestPolicy = { isIdempotent: false, keepRunning: false, outlivesClient: true }
