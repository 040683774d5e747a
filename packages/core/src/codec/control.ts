import { checkOption } from '@batonsql/options'
import { checkControl, statementKind } from '../sql/statement-kind.ts'
import type { EncodedStatement } from './statement.ts'

export const TRANSACTION_MODES = ['immediate', 'deferred', 'readonly', 'concurrent'] as const

/**
 * When a transaction acquires the write lock: `immediate` (default) at its beginning, `deferred` with the first write (which
 * fails with SQLITE_BUSY if another client wrote in between), `readonly` like `deferred`: it declares that the transaction only
 * reads, but servers do not reject its writes. `concurrent`, for Turso's engine only, writes without the lock, and fails with
 * SQLITE_BUSY if another transaction changed the same rows.
 */
export type TransactionMode = (typeof TRANSACTION_MODES)[number]

/** A statement that core itself adds to a request, such as BEGIN, COMMIT, a savepoint command, or a pragma. */
export interface ControlStatement extends EncodedStatement {
  /** Whether it acquires the write lock. */
  readonly needsWriteLock: boolean
}

/** Encodes SQL that core itself sends. */
const encodeControl = <Kind extends EncodedStatement['kind']>(
  sql: string,
  kind: Kind,
  needsWriteLock = false,
): ControlStatement & { readonly kind: Kind } => ({
  sql,
  kind,
  needsWriteLock,
  json: JSON.stringify({ sql }),
})

export const BEGIN_CONCURRENT = encodeControl('BEGIN CONCURRENT', 'begin')
/** Start of the error message for {@link BEGIN_CONCURRENT} on libsql-server, which can parse all other control statements. */
export const CONCURRENT_REJECTED = "mode 'concurrent' needs Turso's engine: "
const BEGIN: Record<TransactionMode | 'exclusive', ControlStatement> = {
  immediate: encodeControl('BEGIN IMMEDIATE', 'begin', true),
  // only in a user's BEGIN statement
  exclusive: encodeControl('BEGIN EXCLUSIVE', 'begin', true),
  deferred: encodeControl('BEGIN DEFERRED', 'begin'),
  readonly: encodeControl('BEGIN READONLY', 'begin'),
  concurrent: BEGIN_CONCURRENT,
}
export const COMMIT = encodeControl('COMMIT', 'commit')
export const ROLLBACK = encodeControl('ROLLBACK', 'rollback')
export const FOREIGN_KEYS_OFF = encodeControl('PRAGMA foreign_keys = off', 'session')
/** Returns one row and changes nothing. */
export const PROBE = encodeControl('SELECT 1', 'read')

/** Returns the statement that begins a transaction. @throws TypeError for another mode */
export function beginStatement(mode: TransactionMode = 'immediate'): ControlStatement {
  // anything else would become part of the SQL
  if (mode !== 'immediate') checkOption('mode', mode, TRANSACTION_MODES)
  return BEGIN[mode]
}

/** Parses a mode or a user's BEGIN statement. @throws SyntaxError for text after BEGIN; TypeError for anything else */
export function parseBegin(mode?: TransactionMode | (string & {})): ControlStatement {
  if (mode === undefined || statementKind(mode) !== 'begin')
    return beginStatement(mode as TransactionMode | undefined)
  return BEGIN[(checkControl(mode) ?? 'deferred') as TransactionMode]
}

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

export const savepointStatement = (name: string): ControlStatement =>
  encodeControl(`SAVEPOINT ${quote(name)}`, 'savepoint')
export const rollbackToStatement = (name: string): ControlStatement =>
  encodeControl(`ROLLBACK TO ${quote(name)}`, 'release')
export const releaseStatement = (name: string): ControlStatement =>
  encodeControl(`RELEASE ${quote(name)}`, 'release')
