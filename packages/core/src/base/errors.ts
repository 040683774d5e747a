import { ERROR_TEXT_LENGTH } from './limits.ts'
import type { WireError } from './wire.ts'

/** Whether a failed call took effect. `not_applied`: none of it did; `unknown`: some or all of it may have. */
export type DatabaseOutcome = 'not_applied' | 'unknown'

/** A constraint violation, parsed from the server's message. */
export interface ConstraintViolation {
  readonly kind: 'unique' | 'not_null' | 'check' | 'foreign_key' | 'other'
  /** The table named by the server; null if its message names none (foreign keys, CHECK, RAISE). */
  readonly table: string | null
  /** The columns named by the server, without the table. */
  readonly columns: readonly string[]
}

interface Details {
  readonly sql?: string | null | undefined
  readonly results?: readonly unknown[]
}

// kept out of properties, so that a printed error shows only the truncated SQL in its stack, and never data
const details = new WeakMap<Error, Details>()

/** Returns an object that identifies an error that core has created, and its copies; undefined for other errors. */
export const identityOf = (error: unknown): object | undefined => details.get(error as Error)

/** Marks an error of another class as one that core has created. */
export function asOwn<E extends Error>(error: E): E {
  details.set(error, {})
  return error
}

abstract class BaseError extends Error {
  /** Stable identifier; match on this, not on the message. */
  abstract readonly code: string
  /**
   * Whether the call may have been applied: after `unknown`, check before you repeat it. For a statement in a transaction,
   * `unknown` means that a later COMMIT may apply rows of it; the error of the transaction as a whole has its own outcome.
   */
  abstract readonly outcome: DatabaseOutcome

  /** @internal */
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    details.set(this, {})
  }
}

/**
 * Any error caused by a database or the connection to it. Incorrect calls throw TypeError and RangeError. `instanceof
 * DatabaseError` narrows to this union, and `code` to one of its classes:
 *
 * ```ts
 * if (error instanceof DatabaseError && error.code === 'HTTP_STATUS') console.log(error.status)
 * ```
 */
export type DatabaseError =
  | SqlError
  | StreamError
  | TransportError
  | HttpError
  | ProtocolError
  | RestoreError
  | ConflictError

// a union, because TypeScript cannot narrow an abstract class by a literal
export const DatabaseError = BaseError as unknown as abstract new (...args: never) => DatabaseError

/** Codes of a {@link SqlError}: SQLite's primary result codes, and codes that the server adds. Newer servers may send others. */
export type SqlErrorCode =
  | `SQLITE_${'ABORT' | 'AUTH' | 'BUSY' | 'CANTOPEN' | 'CONSTRAINT' | 'CORRUPT' | 'FULL' | 'INTERNAL' | 'INTERRUPT'}`
  | `SQLITE_${'IOERR' | 'LOCKED' | 'MISMATCH' | 'MISUSE' | 'NOLFS' | 'NOMEM' | 'NOTADB' | 'NOTFOUND' | 'PERM'}`
  | `SQLITE_${'PROTOCOL' | 'RANGE' | 'READONLY' | 'SCHEMA' | 'TOOBIG' | 'UNKNOWN'}`
  | 'SQL_PARSE_ERROR'
  | 'SQL_INPUT_ERROR'
  | 'SQL_NO_STATEMENT'
  | 'SQL_MANY_STATEMENTS'
  | 'ARGS_INVALID'
  | 'ARGS_BOTH_POSITIONAL_AND_NAMED'
  | 'TRANSACTION_TIMEOUT'
  | 'TRANSACTION_BUSY'
  | 'BLOCKED'
  | 'PROXY_ERROR'
  | 'RESPONSE_TOO_LARGE'
  | 'SCHEMA_MIGRATION_ERROR'

/** The database rejected a statement. `code` is the one that the server sent, such as `SQLITE_CONSTRAINT`. */
export class SqlError extends BaseError {
  override readonly name = 'SqlError'
  readonly outcome: DatabaseOutcome
  readonly code: SqlErrorCode
  /** Extended SQLite code such as `SQLITE_CONSTRAINT_UNIQUE`: the server's, or derived from its message; otherwise null. */
  readonly extendedCode: string | null
  /** Set for constraint violations. */
  readonly constraint: ConstraintViolation | null
  /** Position of the statement in the batch, from 0; null if the server did not report it. */
  readonly statementIndex: number | null

  /** @param outcome overrides what code and message imply, as for a batch that was rolled back */
  // oxlint-disable-next-line max-params
  constructor(
    error: WireError,
    sql: string | null = null,
    statementIndex: number | null = null,
    results: readonly unknown[] = [],
    outcome?: DatabaseOutcome,
  ) {
    const { message, code, extended_code: extendedCode } = error
    const hint = findHint(error)
    // a copy of an error has it already
    super(message.includes(hint) ? message : message + hint)
    this.code = (code ?? 'SQLITE_UNKNOWN') as SqlErrorCode
    this.constraint = this.code.startsWith('SQLITE_CONSTRAINT') ? readConstraint(message) : null
    const kind = this.constraint?.kind ?? 'other'
    this.extendedCode =
      extendedCode ?? (kind === 'other' ? null : `SQLITE_CONSTRAINT_${kind.replace('_', '').toUpperCase()}`)
    this.outcome =
      outcome ?? (provesNoEffect(this.code, message) && !mayKeepRows(this, sql) ? 'not_applied' : 'unknown')
    this.statementIndex = statementIndex
    details.set(this, { sql, results })
  }

  /** Text of the statement, if known. */
  get sql(): string | null {
    return details.get(this)?.sql ?? null
  }

  /** Results of the statements before this one; rolled back with it, unless they ran in your own transaction. */
  get results(): readonly unknown[] {
    return details.get(this)?.results ?? []
  }
}

function findHint({ code, message }: WireError): string {
  if (code === 'RESPONSE_TOO_LARGE') return ': read it with readRows(), or with LIMIT'
  if (code === 'SQL_MANY_STATEMENTS') return ': use batch(), or executeMultiple() for a script'
  if (/contains transaction items|left in transaction state|Interactive transactions/.test(message))
    return ': a schema database runs each request as a migration, in its own transaction: use batch() instead of a transaction'
  // a constraint may be a RAISE() with this text
  if (message.includes('string or blob too big') && !code?.startsWith('SQLITE_CONSTRAINT'))
    return ': a value, or all values of a row together, must be smaller than 5,000,000 bytes; split it, or store it elsewhere'
  if (message.includes('too many SQL variables'))
    return ': at most 32,766 parameters; pass a list as one JSON text to json_each(?), or insert the rows in chunks'
  return ''
}

/**
 * Whether an error proves that the statement had no effect. RESPONSE_TOO_LARGE does not: it is detected after the statement
 * ran. Neither does a PROXY_ERROR, for which the replica may have lost the response, nor an unknown code.
 */
const provesNoEffect = (code: string, message: string): boolean =>
  /^(SQL_|SQLITE_(?!IOERR)|ARGS_|TRANSACTION_|BLOCKED$)/.test(code) || isRejectedMigration(message)

/** Whether a migration was rejected, or failed in a dry run. After that, some of the databases may already have it. */
const isRejectedMigration = (message: string): boolean =>
  /^Schema migration error: (?:An error occured|migration |Connection left|Interactive|A migration job)/.test(
    message,
  )

/**
 * Whether a statement that violated a constraint may have kept earlier rows. SQLite keeps them for `OR FAIL` and for
 * `RAISE(FAIL)`, which has a user-defined message. `ON CONFLICT FAIL` in a table or a trigger cannot be detected here.
 */
function mayKeepRows({ constraint, message }: SqlError, sql: string | null): boolean {
  const mayBeRaiseFail = constraint?.kind === 'other' && !message.includes('cannot store ')
  return constraint !== null && sql !== null && (OR_FAIL.test(sql) || mayBeRaiseFail)
}

/** Matches `OR FAIL`, or OR followed by a comment, after which FAIL may follow. */
const OR_FAIL = /\bor(?:\s+fail\b|\s*(?:--|\/\*))/i

function readConstraint(message: string): ConstraintViolation {
  const [, kind, names = ''] =
    /(UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed(?:: (.*))?/.exec(message) ?? []
  // unquoted `table.column, table.column`; or an index, or the text of a CHECK
  const namesColumns = /^[UN]/.test(kind ?? '') && !names.startsWith("index '")
  const [, table = null, columns] = (namesColumns && /^(.*?)\.(.*)/.exec(names)) || []
  return {
    kind: (kind?.toLowerCase().replace(' ', '_') ?? 'other') as ConstraintViolation['kind'],
    table,
    // a name may contain commas
    columns: columns?.split(`, ${table}.`) ?? [],
  }
}

/** A stream or its transaction was lost, and none of the transaction was kept. Begin a new one. */
export class StreamError extends BaseError {
  override readonly name = 'StreamError'
  /** Always `not_applied`, except for a script that had already changed something. */
  readonly outcome: DatabaseOutcome = 'not_applied'
  readonly code: `${'STREAM' | 'TRANSACTION'}_${'EXPIRED' | 'LOST'}` | 'STREAM_CLOSED'
  /** Time from the beginning of the transaction to its loss, in ms; null without a transaction. */
  readonly elapsedMs: number | null

  constructor(
    code: StreamError['code'],
    message: string,
    cause?: unknown,
    elapsedMs?: number,
    lastSql?: string,
  ) {
    super(elapsedMs === undefined ? message : `${message} (${elapsedMs} ms after it began)`, { cause })
    this.code = code
    this.elapsedMs = elapsedMs ?? null
    details.set(this, { sql: lastSql })
  }

  /** The last statement sent, if any. */
  get lastSql(): string | null {
    return details.get(this)?.sql ?? null
  }

  /** Makes Kysely skip its own rollback. */
  get [Symbol.for('kysely.AbortedTransactionError')](): boolean {
    return this.code !== 'STREAM_CLOSED'
  }
}

/**
 * A request or its response was lost or timed out, too many calls were queued (`QUEUE_FULL`), or the client was closed
 * (`CLOSED`).
 */
export class TransportError extends BaseError {
  override readonly name = 'TransportError'
  readonly code: 'NETWORK' | 'TIMEOUT' | 'QUEUE_FULL' | 'CLOSED'
  readonly outcome: DatabaseOutcome

  constructor(code: TransportError['code'], message: string, outcome: DatabaseOutcome, cause?: unknown) {
    super(message, { cause })
    this.code = code
    this.outcome = outcome
  }
}

const STATUS_HINTS: Readonly<Record<number, string>> = {
  401: 'check authToken',
  404: 'check the URL: no such database or path',
  413: 'a proxy limits the size of requests',
  429: 'too many open streams; retry later',
}

/** The server, or a proxy in front of it, responded with a status other than 2xx. */
export class HttpError extends BaseError {
  override readonly name = 'HttpError'
  readonly code = 'HTTP_STATUS'
  readonly outcome: DatabaseOutcome
  readonly status: number
  /** The delay requested by the server, in ms; null if there is none. */
  readonly retryAfterMs: number | null
  /** The body of the response, at most 4,096 characters. */
  readonly body: string
  /** The code in a JSON body, if there is one. */
  readonly serverCode: string | null

  constructor(status: number, url: string, text: string, retryAfter?: string | null) {
    const body = text.slice(0, ERROR_TEXT_LENGTH)
    let reason = /^\s*</.test(body) ? '' : body
    let serverCode: string | null = null
    let hint = STATUS_HINTS[status]
    try {
      const json = JSON.parse(text) as { error?: string; message?: string; code?: string }
      const message: unknown = json.error ?? json.message
      if (typeof message === 'string') reason = message
      if (typeof json.code === 'string') serverCode = json.code
      // the server's own limit
      if (status === 413) hint = ''
    } catch {
      // not JSON: the text itself is the reason
    }
    super(`${url} returned HTTP ${status}${reason && `: ${reason.slice(0, 500)}`}${hint ? ` (${hint})` : ''}`)
    this.status = status
    // a rejected request was not executed, nor one that is not supported (501); after a failure, or a proxy's timeout, it may have been
    this.outcome = status < 502 && status !== 500 && status !== 408 ? 'not_applied' : 'unknown'
    // seconds, or a date
    const delayMs =
      Number(retryAfter) >= 0 ? Number(retryAfter) * 1_000 : Date.parse(`${retryAfter}`) - Date.now()
    this.retryAfterMs = retryAfter && delayMs >= 0 ? delayMs : null
    this.body = body
    this.serverCode = serverCode
  }
}

/** A restore was interrupted. `restore(db, source, { resume: true })` with the same source continues it. */
export class RestoreError extends BaseError {
  override readonly name = 'RestoreError'
  readonly code = 'RESTORE_STOPPED'
  /** Whether the batch after the `applied` statements may have been applied too; a resumed restore checks this first. */
  readonly outcome: DatabaseOutcome
  /** Number of statements, from the start of the source, that are known to have been applied. */
  readonly applied: number

  constructor(applied: number, cause: Error, outcome: DatabaseOutcome = 'not_applied') {
    super(`the restore stopped after ${applied} statements: ${cause.message}`, { cause })
    this.applied = applied
    this.outcome = outcome
  }
}

/**
 * What an optimistic transaction had read was changed before its writes, as often as `maxConflicts` allows, or cannot be compared.
 * Nothing was kept. Thrown only with `fallback: 'none'`.
 */
export class ConflictError extends BaseError {
  override readonly name = 'ConflictError'
  readonly code = 'CONFLICT'
  readonly outcome: DatabaseOutcome = 'not_applied'
}

/** Returns the error of a batch as if its first statements had not been part of it. */
export function withoutSteps(error: SqlError, count: number): SqlError {
  const copy = copyError(error, { statementIndex: (error.statementIndex ?? 0) - count })
  details.set(copy, { sql: error.sql, results: error.results.slice(count) })
  return copy
}

/** Copies an error with changes: the error itself may have been thrown or reported, and never changes after that. */
export function copyError<T>(
  error: T,
  changes: { readonly message?: string; readonly [property: string]: unknown } = {},
): T {
  if (!(error instanceof Error)) return error
  const { message, cause } = error
  let stack: unknown = error.stack
  // a custom `prepareStackTrace` may return anything
  if (changes.message !== undefined && typeof stack === 'string')
    stack = stack.replace(`: ${message}`, () => `: ${changes.message}`)
  const copy = new Error(message, 'cause' in error ? { cause } : {})
  details.set(copy, details.get(error) ?? {})
  Object.setPrototypeOf(copy, Object.getPrototypeOf(error) as object)
  return Object.assign(copy, error, { stack }, changes)
}

/** Returns an error with the outcome of the whole call. Returns other errors, such as a signal's reason, unchanged. */
export function withOutcome<T>(error: T, outcome: DatabaseOutcome): T {
  const current = (error as Partial<DatabaseError> | null | undefined)?.outcome
  return current === undefined || current === outcome ? error : copyError(error, { outcome })
}

/** Marks the error of a read as not applied, whether or not the read was executed. */
export function asNotApplied(error: unknown): unknown {
  const hasNoResult =
    error instanceof TransportError || error instanceof HttpError || error instanceof ProtocolError
  return hasNoResult ? withOutcome(error, 'not_applied') : error
}

/** The server's response violates the protocol. */
export class ProtocolError extends BaseError {
  override readonly name = 'ProtocolError'
  readonly code = 'PROTOCOL'
  readonly outcome: DatabaseOutcome

  constructor(
    message: string,
    { cause, outcome = 'unknown' }: { cause?: unknown; outcome?: DatabaseOutcome } = {},
  ) {
    super(message, { cause })
    this.outcome = outcome
  }
}

/** Returns the error of a response that could not be read: a RangeError concerns a value, others the whole response. */
export function toProtocolError(error: unknown): unknown {
  if (error instanceof DatabaseError) return error
  if (error instanceof RangeError) return asOwn(error)
  return new ProtocolError('malformed response', { cause: error })
}

/** Returns the message of whatever was thrown: also of an error of another realm, and of an object that has no `toString`. */
export function messageOf(thrown: unknown): string {
  const { message } = Object(thrown) as { message?: unknown }
  if (typeof message === 'string') return message
  try {
    return String(thrown)
  } catch {
    return {}.toString.call(thrown)
  }
}
