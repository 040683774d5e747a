import { ERROR_TEXT_LENGTH } from './limits.ts'
import type { WireError } from './wire.ts'

/**
 * Whether the work of a failed call took effect: `not_applied`, nothing of the call is there; `unknown`, some or all of it
 * may be.
 */
export type Outcome = 'not_applied' | 'unknown'

/** What a violated constraint is about, read from the server's message. */
export interface ConstraintViolation {
  readonly kind: 'unique' | 'not_null' | 'check' | 'foreign_key' | 'other'
  /** Table the server named, or null when its message names none (foreign keys, CHECK, RAISE). */
  readonly table: string | null
  /** Columns the server named, without the table. */
  readonly columns: readonly string[]
}

abstract class BaseError extends Error {
  /** Stable identifier; match on this and not on the message. */
  abstract readonly code: string
  /**
   * Whether something of the call may be there all the same: `unknown` means look before you repeat it. For an error inside a
   * transaction it becomes `not_applied` when the transaction is rolled back.
   */
  abstract readonly outcome: Outcome
}

/**
 * Every error that a database, or the way to it, causes. Mistakes of the caller are TypeError and RangeError. `instanceof
 * DatabaseError` narrows to this union, and `code` to one of its classes:
 *
 * ```ts
 * if (error instanceof DatabaseError && error.code === 'HTTP_STATUS') console.log(error.status)
 * ```
 */
export type DatabaseError = SqlError | StreamError | TransportError | HttpError | ProtocolError | RestoreError

export const DatabaseError = BaseError as unknown as abstract new (...args: never) => DatabaseError

/** Codes of a {@link SqlError}: SQLite's primary result codes, and the server's own. A newer server may send others. */
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

/** The database refused a statement. `code` is the server's own, such as `SQLITE_CONSTRAINT` or `SQL_PARSE_ERROR`. */
export class SqlError extends BaseError {
  override readonly name = 'SqlError'
  readonly outcome: Outcome
  readonly code: SqlErrorCode
  /** Extended SQLite code such as `SQLITE_CONSTRAINT_UNIQUE`: the server's, or derived from its message; else null. */
  readonly extendedCode: string | null
  /** Set for constraint violations. */
  readonly constraint: ConstraintViolation | null
  /** Position in the batch, from 0; null when the server did not say which statement it was. */
  readonly statementIndex: number | null
  // not fields: a printed error shows the SQL, cut, in its stack, and never data
  readonly #sql: string | null
  readonly #results: readonly unknown[]

  /** @param outcome where more is known than the code and the text tell, as of a batch that was rolled back */
  // oxlint-disable-next-line max-params
  constructor(
    error: WireError,
    sql: string | null = null,
    statementIndex: number | null = null,
    results: readonly unknown[] = [],
    outcome?: Outcome,
  ) {
    const { message, code, extended_code: extendedCode } = fromPrimary(error)
    super(code === 'RESPONSE_TOO_LARGE' ? `${message}: read it with readRows(), or with LIMIT` : message)
    this.code = (code ?? 'SQLITE_UNKNOWN') as SqlErrorCode
    this.constraint = this.code.startsWith('SQLITE_CONSTRAINT') ? readConstraint(message) : null
    const kind = this.constraint?.kind ?? 'other'
    this.extendedCode =
      extendedCode ?? (kind === 'other' ? null : `SQLITE_CONSTRAINT_${kind.replace('_', '').toUpperCase()}`)
    this.outcome =
      outcome ?? (isUndone(this.code, message) && !mayKeepRows(this, sql) ? 'not_applied' : 'unknown')
    this.statementIndex = statementIndex
    this.#sql = sql
    this.#results = results
  }

  /** Text of the statement, where it is known. */
  get sql(): string | null {
    return this.#sql
  }

  /** What the statements before this one returned; rolled back with it, unless the transaction is yours. */
  get results(): readonly unknown[] {
    return this.#results
  }
}

/**
 * Whether an error of the server says that the statement had no effect. RESPONSE_TOO_LARGE does not: it is found when the
 * statement has run. Nor does a PROXY_ERROR that is not the primary's own: the replica lost the answer. Nor do codes that are
 * not known here.
 */
const isUndone = (code: string, message: string): boolean =>
  /^(SQL_|SQLITE_(?!IOERR)|ARGS_|TRANSACTION_|BLOCKED$)/.test(code) ||
  (code === 'PROXY_ERROR' && message.startsWith('SQLite error: '))

/**
 * Whether a statement that violated a constraint may have kept the rows before that one. SQLite does so for `OR FAIL` and for
 * `RAISE(FAIL)`, whose message is its author's own. `ON CONFLICT FAIL` in a table or a trigger cannot be told from here.
 */
function mayKeepRows({ constraint, message }: SqlError, sql: string | null): boolean {
  const mayStop = constraint?.kind === 'other' && !message.includes('cannot store ')
  return constraint !== null && sql !== null && (OR_FAIL.test(sql) || mayStop)
}

/** `OR FAIL`, or an OR followed by a comment, behind which FAIL may stand. */
const OR_FAIL = /\bor(?:\s+fail\b|\s*(?:--|\/\*))/i

/** A replica passes a write on, and of the primary's error only the words: the code has to be told from them. */
function fromPrimary(error: WireError): WireError {
  if (error.code !== 'PROXY_ERROR') return error
  const message = error.message.replace('error executing a request on the primary: ', '')
  const known = PRIMARY_ERRORS.find(([words]) => message.includes(words))
  return { message, code: known?.[1] ?? 'PROXY_ERROR' }
}

const PRIMARY_ERRORS = [
  ['Transaction timed-out', 'TRANSACTION_TIMEOUT'],
  ['Operation was blocked', 'BLOCKED'],
  ['constraint failed', 'SQLITE_CONSTRAINT'],
  ['database is locked', 'SQLITE_BUSY'],
  ['disk is full', 'SQLITE_FULL'],
] as const

function readConstraint(message: string): ConstraintViolation {
  const [, kind, names = ''] =
    /(UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed(?:: (.*))?/.exec(message) ?? []
  // `table.column, table.column`, without quotes; or an index, or the text of a CHECK
  const isColumns = /^[UN]/.test(kind ?? '') && !names.startsWith("index '")
  const [, table = null, columns] = (isColumns && /^(.*?)\.(.*)/.exec(names)) || []
  return {
    kind: (kind?.toLowerCase().replace(' ', '_') ?? 'other') as ConstraintViolation['kind'],
    table,
    // names have commas, too
    columns: columns?.split(`, ${table}.`) ?? [],
  }
}

/** A stream, or the transaction on it, is gone, and nothing of the transaction was kept. Begin a new one. */
export class StreamError extends BaseError {
  override readonly name = 'StreamError'
  /** Always `not_applied`, unless the call was a script that had changed something before. */
  readonly outcome: Outcome = 'not_applied'
  readonly code: `${'STREAM' | 'TRANSACTION'}_${'EXPIRED' | 'LOST'}` | 'STREAM_CLOSED'
  /** Time from the transaction's beginning to its loss, in ms; null without a transaction. */
  readonly elapsedMs: number | null
  readonly #lastSql: string | null

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
    this.#lastSql = lastSql ?? null
  }

  /** The statement sent last, where there was one. */
  get lastSql(): string | null {
    return this.#lastSql
  }

  /** Kysely skips its own rollback for an error that carries this mark. */
  get [Symbol.for('kysely.AbortedTransactionError')](): boolean {
    return this.code !== 'STREAM_CLOSED'
  }
}

/**
 * The request or its answer got lost on the way, or took too long, or (`QUEUE_FULL`) too many wait before it, or (`CLOSED`)
 * its client was closed meanwhile.
 */
export class TransportError extends BaseError {
  override readonly name = 'TransportError'
  readonly code: 'NETWORK' | 'TIMEOUT' | 'QUEUE_FULL' | 'CLOSED'
  readonly outcome: Outcome

  constructor(code: TransportError['code'], message: string, outcome: Outcome, cause?: unknown) {
    super(message, { cause })
    this.code = code
    this.outcome = outcome
  }
}

const HINTS: Readonly<Record<number, string>> = {
  401: 'check authToken',
  404: 'check the URL: no such database or path',
  429: 'too many open streams',
}

/** The server, or a proxy before it, answered with a status other than 2xx. */
export class HttpError extends BaseError {
  override readonly name = 'HttpError'
  readonly code = 'HTTP_STATUS'
  readonly outcome: Outcome
  readonly status: number
  /** How long the server asks to wait, in ms; null when it does not say. */
  readonly retryAfterMs: number | null
  /** What the server wrote, at most 4,096 characters. */
  readonly body: string
  /** Code inside a JSON body, when there is one. */
  readonly serverCode: string | null

  constructor(status: number, url: string, text: string, retryAfter?: string | null) {
    const body = text.slice(0, ERROR_TEXT_LENGTH)
    let reason = body.startsWith('<') ? '' : body
    let serverCode: string | null = null
    try {
      const json = JSON.parse(text) as { error?: string; message?: string; code?: string }
      const message: unknown = json.error ?? json.message
      if (typeof message === 'string') reason = message
      if (typeof json.code === 'string') serverCode = json.code
    } catch {
      // not JSON: the text itself is what the server said
    }
    const hint = HINTS[status]
    super(`${url} answered HTTP ${status}${reason && `: ${reason.slice(0, 500)}`}${hint ? ` (${hint})` : ''}`)
    this.status = status
    // a server that refuses a request has not run it; one that fails, or a proxy that lost patience, may have
    this.outcome = status < 500 && status !== 408 ? 'not_applied' : 'unknown'
    this.retryAfterMs = retryAfter && Number(retryAfter) >= 0 ? Number(retryAfter) * 1_000 : null
    this.body = body
    this.serverCode = serverCode
  }
}

/** A restore stopped in the middle. `restore(db, source, { resume: true })` with the same source goes on where it stands. */
export class RestoreError extends BaseError {
  override readonly name = 'RestoreError'
  readonly code = 'RESTORE_STOPPED'
  /** Whether the batch after `applied` may be there all the same; going on looks first. */
  readonly outcome: Outcome
  /** Statements of the source that certainly are applied, from its first. */
  readonly applied: number

  constructor(applied: number, cause: Error, outcome: Outcome = 'not_applied') {
    super(`the restore stopped after ${applied} statements: ${cause.message}`, { cause })
    this.applied = applied
    this.outcome = outcome
  }
}

/** Gives an error the outcome of the call as a whole; errors that have none, such as a signal's reason, stay as they are. */
export function withOutcome(error: unknown, outcome: Outcome): unknown {
  return error instanceof DatabaseError ? Object.assign(error, { outcome }) : error
}

/** Lets the error of a read say that nothing was applied, whether it has run or not. */
export function asNotApplied(error: unknown): unknown {
  const hasNoAnswer = error instanceof TransportError || error instanceof HttpError
  return hasNoAnswer ? withOutcome(error, 'not_applied') : error
}

/** The server's answer is not what the protocol promises. */
export class ProtocolError extends BaseError {
  override readonly name = 'ProtocolError'
  readonly code = 'PROTOCOL'
  readonly outcome = 'unknown'

  /** What is thrown for an error that came up while an answer was read; a RangeError is about a value, not about its form. */
  static of(error: unknown): unknown {
    if (error instanceof DatabaseError || error instanceof RangeError) return error
    return new ProtocolError('the answer is not one to this request', { cause: error })
  }
}
