import { ResultError } from '@batonsql/server-common/hrana'
import {
  formatPosition,
  getLineAndColumn,
  parseError,
  type Statement,
  type Token,
} from '@batonsql/server-common/sql'
import type { SqliteError } from './sqlite-connection.ts'

const SQLITE_ERROR = 1
const SQLITE_BUSY = 5

/** Names of SQLite's codes, except SQLITE_ERROR and SQLITE_BUSY. */
const PRIMARY_CODES: Readonly<Record<number, string>> = {
  2: 'SQLITE_INTERNAL',
  3: 'SQLITE_PERM',
  4: 'SQLITE_ABORT',
  6: 'SQLITE_LOCKED',
  7: 'SQLITE_NOMEM',
  8: 'SQLITE_READONLY',
  9: 'SQLITE_INTERRUPT',
  10: 'SQLITE_IOERR',
  11: 'SQLITE_CORRUPT',
  12: 'SQLITE_NOTFOUND',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  15: 'SQLITE_PROTOCOL',
  17: 'SQLITE_SCHEMA',
  18: 'SQLITE_TOOBIG',
  19: 'SQLITE_CONSTRAINT',
  20: 'SQLITE_MISMATCH',
  21: 'SQLITE_MISUSE',
  22: 'SQLITE_NOLFS',
  23: 'SQLITE_AUTH',
  25: 'SQLITE_RANGE',
  26: 'SQLITE_NOTADB',
}

/** Names of extended codes that distinguish errors with the same code. */
const EXTENDED_CODES: Readonly<Record<number, string>> = {
  275: 'SQLITE_CONSTRAINT_CHECK',
  531: 'SQLITE_CONSTRAINT_COMMITHOOK',
  787: 'SQLITE_CONSTRAINT_FOREIGNKEY',
  1043: 'SQLITE_CONSTRAINT_FUNCTION',
  1299: 'SQLITE_CONSTRAINT_NOTNULL',
  1555: 'SQLITE_CONSTRAINT_PRIMARYKEY',
  1811: 'SQLITE_CONSTRAINT_TRIGGER',
  2067: 'SQLITE_CONSTRAINT_UNIQUE',
  2323: 'SQLITE_CONSTRAINT_VTAB',
  2579: 'SQLITE_CONSTRAINT_ROWID',
  3091: 'SQLITE_CONSTRAINT_DATATYPE',
  517: 'SQLITE_BUSY_SNAPSHOT',
}

/** Converts an engine error to an error for the client, as worded by the service. */
export function toResultError({ code, message, offset }: SqliteError): ResultError {
  const primary = code & 0xff
  const extended = EXTENDED_CODES[code] ?? null
  if (primary === SQLITE_BUSY)
    return new ResultError('SQLITE_BUSY', 'SQLite error: database is locked', extended)
  if (primary !== SQLITE_ERROR)
    return new ResultError(PRIMARY_CODES[primary] ?? 'SQLITE_UNKNOWN', `SQLite error: ${message}`, extended)
  return offset < 0
    ? new ResultError('SQLITE_UNKNOWN', `SQLite error: ${message}`)
    : new ResultError('SQL_INPUT_ERROR', `SQL input error: ${message} (at offset ${offset})`)
}

export interface SyntaxProblem {
  readonly error: ResultError
  /** Whether the statement is merely incomplete, which the service ignores unless it is the first of the SQL text. */
  readonly isIncomplete: boolean
}

/** Returns the syntax error that an engine message describes; null for all other errors. */
export function findSyntaxProblem(
  message: string,
  text: string,
  statement: Statement,
  isFirst: boolean,
): SyntaxProblem | null {
  const { sql, offset, tokens } = statement
  if (message === 'incomplete input') {
    const end = offset + sql.length
    return {
      error: parseError(`unexpected end of input at ${formatPosition(text, end, 1)}`),
      isIncomplete: true,
    }
  }
  // the service also returns where, but SQLite does not report it
  if (message === 'parser stack overflow')
    return { error: parseError('parser overflowed its stack'), isIncomplete: false }
  const badToken = /^unrecognized token: "(.*)"$/s.exec(message)?.[1]
  if (badToken !== undefined) {
    const position = formatPosition(text, offset + sql.indexOf(badToken), 1)
    let reason = message
    if (/^x'/i.test(badToken)) reason = `malformed blob literal at ${position}`
    if (/^0x/i.test(badToken)) reason = `malformed hex integer at ${position}`
    return { error: parseError(reason), isIncomplete: false }
  }
  if (statement.verb === 'CREATE' && message.startsWith('duplicate column name: ')) {
    // at the end of the SQL text the service drops the statement, like an incomplete one
    const isAtEnd = sql.endsWith(')') && text.slice(offset + sql.length).trim() === ''
    return {
      error: parseError(`${message} at ${formatPosition(text, offset + sql.length)}`),
      isIncomplete: isAtEnd,
    }
  }
  const near = /^near "(.*)": syntax error$/s.exec(message)?.[1]
  if (near === undefined) return null
  // the service's parser accepts these clauses, but its engine does not
  if ((statement.explains ?? statement.kind) === 'change' && /^(?:LIMIT|ORDER)$/i.test(near)) return null
  if (near.startsWith('#')) return null
  let tokenIndex = tokens.findLastIndex((token) => sql.slice(token.start, token.end) === near)
  const isIncomplete = (tokenIndex === 0 && tokens.length === 1) || near === ';'
  // after another statement the service accepts the first word and reports the second
  if (!isFirst && tokenIndex === 0 && tokens.length > 1) tokenIndex = 1
  const token = tokens[Math.max(0, tokenIndex)] as Token
  const { line, column } = getLineAndColumn(text, offset + token.end)
  const piece = sql.slice(token.start, token.end)
  return { error: parseError(`syntax error around L${line}:${column + 1}: \`${piece}\``), isIncomplete }
}
