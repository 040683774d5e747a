/** How to handle a request that gets no response, or whose call was aborted. */
export interface RequestPolicy {
  /** Whether the request may be sent again after it may have been executed. */
  readonly isIdempotent?: true
  /**
   * Whether the request keeps running when its call is aborted, so that its stream can be closed. Otherwise, the stream would keep
   * the write lock for the rest of its 5 s, or block the rows that a concurrent transaction has changed.
   */
  readonly keepRunning?: true
  /** Whether the request continues when `close` aborts pending calls. */
  readonly outlivesClient?: true
}

/** Changes nothing, and does not continue a stream. */
export const READ: RequestPolicy = { isIdempotent: true }
/** May hold or acquire the write lock. */
export const WRITE: RequestPolicy = { keepRunning: true }
/** Opens a concurrent transaction, which changes rows without the write lock. */
export const CONCURRENT: RequestPolicy = { keepRunning: true }
/** Continues a stream that does not hold the write lock. */
export const CONTINUE: RequestPolicy = {}
/** Closes a stream. */
export const CLOSE: RequestPolicy = { outlivesClient: true }
