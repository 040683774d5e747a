import { needsWriteLock, type QueuedCall } from '../request/queued-call.ts'

/** The state of a stream that has nothing in flight. */
export interface StreamState {
  /** Whether the stream accepts calls. False while it closes and after it was lost. */
  readonly isOpen: boolean
  /** The first queued call; undefined when there is none. */
  readonly head: QueuedCall | undefined
  /** Whether the server has the stream, and supports cursors. */
  readonly isContinued: boolean
  /** Whether an open transaction does not hold a write permit. */
  readonly isWithoutPermit: boolean
}

/**
 * What a stream does next: nothing; close the stream on the server; end a transaction that the server has not begun; acquire a
 * write permit; send the control statements that precede a cursor, and have its text parsed; let the cursor read; or send the queued calls.
 */
export type Action = 'idle' | 'close' | 'endLocally' | 'acquirePermit' | 'sendPrefix' | 'read' | 'send'

/** Decides what a stream does next. */
export function nextAction({ isOpen, head, isContinued, isWithoutPermit }: StreamState): Action {
  if (!head) return isOpen ? 'idle' : 'close'
  const { cursor, prefix, transactionEnd } = head
  const begins = head.scope === 'transaction' && prefix[0]?.kind === 'begin'
  if (begins && transactionEnd) return 'endLocally'
  if (begins && isWithoutPermit && needsWriteLock(head)) return 'acquirePermit'
  if (cursor) return prefix.length > 0 || (head.isUnparsed && isContinued) ? 'sendPrefix' : 'read'
  return 'send'
}
