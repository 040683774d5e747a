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

/** Reads the rows of a cursor. Until it is done, no other call uses its stream. */
export interface CursorReader {
  /** The client, stream or transaction that reads the rows. */
  readonly owner: object
  /** Returns a call that sends the cursor's control statements, and has its statement parsed. */
  newParseCall(call: CursorCall): ParseCall
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

/** What all kinds of calls have. */
interface Call<Kind, Scope> {
  readonly kind: Kind
  /**
   * `autocommit`: one statement outside of a transaction; `chain`: several of them, in order; `atomic`: as their own transaction;
   * `transaction`: in the transaction of the stream.
   */
  readonly scope: Scope
  /** One statement, or several that stop at the first failure. */
  readonly statements: readonly EncodedStatement[]
  /** Control statements (BEGIN, SAVEPOINT, RELEASE, ROLLBACK TO) that are sent before the statements. */
  prefix: readonly ControlStatement[]
  /** Whether it changes nothing, and may therefore run twice. */
  readonly isReadOnly: boolean
  readonly options: ReadOptions
  readonly deadline: Deadline
  /** State of the handle that made the call. If the handle is rolled back, the call must no longer run. */
  readonly handleState?: HandleState | undefined
  /** Set when a request that it shared has failed: it is sent again, alone. */
  mustBeAlone?: boolean
  readonly resolve: (results: Results) => void
  /** @param isOutdated whether another call of the client has written since the snapshot of the transaction */
  readonly reject: (error: unknown, isOutdated?: boolean) => void
}

export type StatementsCall = Call<'statements', 'autocommit' | 'chain' | 'atomic' | 'transaction'>
/** The end of a transaction, whose statement is COMMIT or ROLLBACK. */
export type EndCall = Call<'commit' | 'rollback', 'transaction'>
/** A cursor: a statement whose rows are read one by one. */
export interface CursorCall extends Call<'cursor', 'autocommit' | 'transaction'> {
  readonly statements: readonly [EncodedStatement]
  readonly reader: CursorReader
  /** Whether the server has yet to parse the statement: a cursor whose statement does not parse ends the stream. */
  isUnparsed: boolean
}
/** Sends the control statements of a cursor before it, and has its statement parsed. */
export interface ParseCall extends Call<'parse', 'chain' | 'transaction'> {
  readonly cursorCall: CursorCall
}

/** The work of one call until it is settled. */
export type QueuedCall = StatementsCall | EndCall | CursorCall | ParseCall

export const endsTransaction = (call: QueuedCall): call is EndCall =>
  call.kind === 'commit' || call.kind === 'rollback'

/** Whether a call is a cursor. @param owner only one of this handle */
export const isCursor = (call: QueuedCall, owner?: object): boolean =>
  call.kind === 'cursor' && (!owner || call.reader.owner === owner)

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
