import type { Deadline } from '../base/deadline.ts'
import { beginStatement, type ControlStatement } from '../codec/control.ts'
import type { ArrayRow, ObjectRow, ResultSet } from '../codec/result.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { BatchOptions, StatementOptions } from '../options.ts'

export type Results = ResultSet<ObjectRow | ArrayRow>[]

/** The reading of rows, which has its stream to itself while it lasts. */
export interface Cursor {
  /** The handle that reads: a client, a stream or a transaction. */
  readonly owner: object
  /** Whether no more rows are wanted. */
  readonly isStopped: boolean
  /** Whether its statement changes nothing. */
  readonly isReadOnly: boolean
  /** Ends the reading before its end. @param isOver whether the stream ends, too @param reason what the loop over the rows throws */
  stop(isOver: boolean, reason: unknown): void
}

/** Work of one call, on its way to the server: statements, the end of a transaction, or the reading of rows. */
export interface QueuedCall {
  /** One statement, or several of which none runs after one that failed. */
  readonly statements: readonly EncodedStatement[]
  /** `autocommit`: outside of a transaction; `chain`: so, one after the other; `atomic`: as a transaction of their own; `transaction`: in the stream's. */
  readonly scope: 'autocommit' | 'chain' | 'atomic' | 'transaction'
  /** Which end of the transaction it is, if it is one. */
  readonly transactionEnd?: 'commit' | 'rollback' | undefined
  /** What reads the rows of the statement, if it is not read as a whole. */
  readonly cursor?: Cursor | undefined
  /** Control statements (BEGIN, SAVEPOINT, RELEASE, ROLLBACK TO) that travel in front. */
  prefix: readonly ControlStatement[]
  /** Whether it may share a request with others. */
  canCoalesce: boolean
  /** Whether it does no harm to run it twice. */
  readonly isReadOnly: boolean
  readonly options: StatementOptions
  readonly deadline: Deadline
  /** Why it must not run any more: the savepoint that it belongs to is over. */
  readonly cancelReason?: (() => Error | null) | undefined
  /** Ends the watch over its deadline and signal, which the request has from then on. */
  stopWatch?: (() => void) | undefined
  readonly resolve: (results: Results) => void
  readonly reject: (error: unknown) => void
}

/** Whether statements change nothing, so that they may run twice. */
export const areReadOnly = (statements: readonly EncodedStatement[], { readOnly }: BatchOptions): boolean =>
  readOnly ?? statements.every(({ kind }) => kind === 'read')

/**
 * Returns what begins a batch that is a transaction of its own. By default a batch that only reads does not wait for the write
 * lock. @throws TypeError for an unknown mode
 */
export const batchPrefix = (isReadOnly: boolean, { mode }: BatchOptions): readonly ControlStatement[] => [
  beginStatement(mode ?? (isReadOnly ? 'deferred' : 'immediate')),
]

/** Whether a call acquires the write lock, as far as its texts tell. */
export const needsWriteLock = (call: QueuedCall): boolean =>
  !call.isReadOnly || call.prefix.some((statement) => statement.needsWriteLock)
