import type { Deadline } from '../base/deadline.ts'
import type { WireResult } from '../base/wire.ts'
import {
  BEGIN_CONCURRENT,
  beginStatement,
  type ControlStatement,
  FOREIGN_KEYS_OFF,
} from '../codec/control.ts'
import type { ArrayRow, ObjectRow, ResultSet } from '../codec/result.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { AtomicBatchOptions, BatchOptions } from '../options.ts'

export type Results = ResultSet<ObjectRow | ArrayRow>[]

/** A cursor. While it is open, no other call uses its stream. */
export interface Cursor {
  /** The client, stream or transaction that reads the rows. */
  readonly owner: object
  /** Returns a call that sends the cursor's control statements, and has its statement parsed. */
  newParseCall(call: QueuedCall): QueuedCall
  /**
   * Stops the cursor.
   * @param endsStream whether the stream ends too
   * @param reason the error that the loop over the rows throws
   */
  stop(endsStream: boolean, reason: unknown): void
}

/** Options of a call, and a listener for its results as the server sent them. */
export interface ReadOptions extends AtomicBatchOptions {
  readonly onResult?: ((result: WireResult) => void) | undefined
}

/** The state of a handle, the `Transaction` that a callback receives for its transaction or savepoint. */
export interface HandleState {
  readonly kind: 'transaction' | 'savepoint'
  /** State of the handle that contains this one; null for a transaction. */
  readonly parent: HandleState | null
  /** Aborted when the whole transaction is. */
  readonly signal?: AbortSignal | undefined
  /** How the handle ended; null while its callback runs. */
  end: 'committed' | 'rolled back' | null
}

/** Whether a handle, or one that contains it, was rolled back. */
export const isUndone = ({ end, parent }: HandleState): boolean =>
  end === 'rolled back' || (parent !== null && isUndone(parent))

export const endMessage = ({ end, kind }: HandleState): string =>
  `the ${kind} was already ${end ?? 'rolled back'}`

/** The work of one call until it is settled: statements, the end of a transaction, or a cursor. */
export interface QueuedCall {
  /** One statement, or several that stop at the first failure. */
  readonly statements: readonly EncodedStatement[]
  /**
   * `autocommit`: one statement outside of a transaction; `chain`: several of them, in order; `atomic`: as their own transaction;
   * `transaction`: in the transaction of the stream.
   */
  readonly scope: 'autocommit' | 'chain' | 'atomic' | 'transaction'
  /** How it ends the transaction; undefined if it does not. */
  readonly transactionEnd?: 'commit' | 'rollback' | undefined
  /** The cursor that reads the rows, unless the result is read as a whole. */
  readonly cursor?: Cursor | undefined
  /** Whether the server has yet to parse the statement of a cursor: a cursor whose statement does not parse ends the stream. */
  isUnparsed?: boolean | undefined
  /** SQL that the server parses and does not run. */
  readonly parsedOnly?: string | undefined
  /** Control statements (BEGIN, SAVEPOINT, RELEASE, ROLLBACK TO) that are sent before the statements. */
  prefix: readonly ControlStatement[]
  /** Whether it may share a request with other calls. */
  canCoalesce?: boolean | undefined
  /** Whether it changes nothing, and may therefore run twice. */
  readonly isReadOnly: boolean
  readonly options: ReadOptions
  readonly deadline: Deadline
  /** State of the handle that made the call. If the handle is rolled back, the call must no longer run. */
  readonly handleState?: HandleState | undefined
  /** The cursor whose control statements it sends. */
  readonly parses?: QueuedCall | undefined
  /** Stops watching its signal, which the request watches instead. */
  stopWatch?: (() => void) | undefined
  readonly resolve: (results: Results) => void
  /** @param isOutdated whether another call of the client has written since the snapshot of the transaction */
  readonly reject: (error: unknown, isOutdated?: boolean) => void
}

/** Whether statements are read-only, and may therefore run twice. */
export const areReadOnly = (statements: readonly EncodedStatement[], { readOnly }: BatchOptions): boolean =>
  readOnly ?? statements.every(({ kind }) => kind === 'read')

/**
 * Returns the BEGIN of an atomic batch. By default, a read-only batch does not wait for the write lock.
 * @throws TypeError for an unknown mode
 */
export const batchPrefix = (
  isReadOnly: boolean,
  { foreignKeys, mode }: AtomicBatchOptions,
): readonly ControlStatement[] => [
  // before BEGIN, because the pragma has no effect inside a transaction
  ...(foreignKeys === 'off' ? [FOREIGN_KEYS_OFF] : []),
  beginStatement(mode ?? (isReadOnly ? 'deferred' : 'immediate')),
]

/** Whether a statement may acquire the write lock, judging by its SQL. */
export const mayLock = ({ kind }: EncodedStatement): boolean => kind !== 'read' && kind !== 'pragma'

/** Whether a call acquires the write lock, judging by its SQL. A concurrent transaction does not need it. */
export const needsWriteLock = ({ isReadOnly, options, prefix, statements }: QueuedCall): boolean =>
  !prefix.includes(BEGIN_CONCURRENT) &&
  (prefix.some((statement) => statement.needsWriteLock) ||
    (!isReadOnly && (options.readOnly === false || statements.length === 0 || statements.some(mayLock))))
