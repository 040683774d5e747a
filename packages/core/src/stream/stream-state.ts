import { EXPIRING_FRACTION, STREAM_IDLE_MS, TRANSACTION_WINDOW_MS } from '../base/limits.ts'
import type { ControlStatement } from '../codec/control.ts'
import type { ResolvedConfig } from '../config.ts'
import type { WriteLock } from '../http/write-lock.ts'
import { type CursorCall, isCursor, type QueuedCall } from '../request/queued-call.ts'
import type { Loss } from '../request/sql-request.ts'

/**
 * What a stream is doing: `idle` (it may wait for a write permit), collecting the calls of one tick, sending a request and waiting for
 * its response, letting a cursor read, closing the stream on the server, or nothing any more.
 */
type Phase = 'idle' | 'collecting' | 'sending' | 'reading' | 'closing' | 'closed'

/** A transaction that was begun; its COMMIT or ROLLBACK may be in flight. */
export interface TransactionState {
  /** Its id in events. */
  readonly id: number
  readonly begunAt: number
  /** When the request that acquired the write lock got its response; time spent in the queue does not count. */
  lockedSince: number | null
  /**
   * The client numbers its acquisitions of the write lock. Until the transaction has the lock, this is the number of the latest
   * acquisition before it began; then that of its own.
   */
  lockNumber: number
  /** Whether its expiry was announced. */
  hasWarned: boolean
  /** Whether its COMMIT or ROLLBACK is queued or in flight. */
  isEnding: boolean
}

/** What is known of a transaction on a server that supports only `execute`; see `execute-only.ts`. */
export interface ExecuteOnlyState {
  /** Whether a statement failed and may have ended the transaction. */
  isUnproven: boolean
  isLost: boolean
  /** When BEGIN was sent. */
  begunAt: number
}

type TransactionLimit = Pick<ResolvedConfig, 'transactionTimeoutMs'>

export interface StreamState {
  phase: Phase
  /** When the stream became idle, or began to close. */
  phaseSince: number
  /** Whether the stream accepts calls. False while it closes (queued calls still run) and after it was lost. */
  isOpen: boolean
  /** Why the stream and its transaction were lost. */
  loss: StreamLoss | null
  queue: QueuedCall[]
  /** Time before which no queued call reaches its time limit. */
  queueDeadline: number
  /** Control statements, such as BEGIN and SAVEPOINT, that are sent with the next call. */
  prefix: readonly ControlStatement[]
  /** The cursor whose control statements are in flight. */
  parsing: CursorCall | null
  /** The cursor that has exclusive use of the stream. */
  cursor: CursorCall | null
  isCursorStopped: boolean
  transaction: TransactionState | null
  /** The write permit of the transaction, kept until the server has ended the transaction. */
  permit: 'none' | 'queued' | 'held'
  /**
   * Continues the stream; null while the server has none, as far as the client knows. The shell sets it from each response, before the
   * event.
   */
  baton: string | null
  /** The baton before an aborted request whose response may still arrive. */
  late: { readonly baton: string | null } | null
  /** Null unless single statements were sent instead of a batch. */
  executeOnly: ExecuteOnlyState | null
}

/** A loss, and what is known of the lost transaction. */
export interface StreamLoss extends Loss {
  readonly elapsedMs: number | undefined
  /** Whether another call of the client waited for the write lock that the transaction held. */
  readonly hasBlocked: boolean
}

export const newStreamState = (): StreamState => ({
  phase: 'idle',
  phaseSince: 0,
  isOpen: true,
  loss: null,
  queue: [],
  queueDeadline: Infinity,
  prefix: [],
  parsing: null,
  cursor: null,
  isCursorStopped: false,
  transaction: null,
  permit: 'none',
  baton: null,
  late: null,
  executeOnly: null,
})

/** Whether a transaction was begun and not ended, as far as the client knows. */
export const isInTransaction = ({ transaction }: StreamState): boolean => transaction?.isEnding === false

/** When other writers may take over the write lock, in ms since the epoch; null while no transaction holds it. */
export const lockExpiresAt = ({ transaction }: StreamState): number | null =>
  transaction === null || transaction.lockedSince === null
    ? null
    : transaction.lockedSince + TRANSACTION_WINDOW_MS

/** Whether a transaction holds the write lock, or the permit to acquire it. */
export const holdsLock = ({ transaction, permit }: StreamState): boolean =>
  transaction !== null && (permit === 'held' || transaction.lockedSince !== null)

/** Whether another call of the client has acquired the write lock since the snapshot of the transaction. */
export const isOutdated = ({ transaction }: StreamState, writeLock: Pick<WriteLock, 'acquired'>): boolean =>
  transaction !== null && writeLock.acquired > transaction.lockNumber

/** Whether rows are being read. @param owner only by this handle */
export const isReading = ({ cursor, isCursorStopped }: StreamState, owner?: object): boolean =>
  cursor !== null && !isCursorStopped && isCursor(cursor, owner)

/** Whether a cursor is open or queued. @param owner only one of this handle */
export const hasCursor = ({ cursor, queue }: StreamState, owner: object): boolean =>
  cursor?.reader.owner === owner || queue.some((call) => isCursor(call, owner))

/** Returns when the stream must be woken up, in ms since the epoch; Infinity for never. */
export function nextWake(state: StreamState, config: TransactionLimit): number {
  const { permit, phase, phaseSince, queueDeadline, transaction } = state
  if (phase === 'closing') return permit === 'none' ? Infinity : phaseSince + STREAM_IDLE_MS
  if (phase === 'sending' || phase === 'reading') return queueDeadline
  const since = transaction?.lockedSince ?? null
  // without the write lock, a transaction blocks no other call, so it may stay idle
  if (phase !== 'idle' || !transaction || since === null) return Infinity
  if (!transaction.hasWarned) return since + lockWindowMs(config) * EXPIRING_FRACTION
  const { transactionTimeoutMs } = config
  return transactionTimeoutMs === Infinity ? phaseSince + STREAM_IDLE_MS : since + transactionTimeoutMs
}

/** How long a transaction keeps the write lock for certain, in ms from its acquisition. */
export const lockWindowMs = ({ transactionTimeoutMs }: TransactionLimit): number =>
  Math.min(transactionTimeoutMs, TRANSACTION_WINDOW_MS)
