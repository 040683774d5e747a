/** The reading of rows, which has its stream to itself while it lasts. */
export interface Cursor {
  /** The handle that reads: a client, a stream or a transaction. */
  readonly owner: object
  /** Whether no more rows are wanted. */
  readonly isStopped: boolean
  /** Whether its statement changes nothing. */
  readonly isRead: boolean
  /** Ends the reading before its end. @param isOver whether the stream ends, too @param reason what the loop over the rows throws */
  stop(isOver: boolean, reason: unknown): void
}
