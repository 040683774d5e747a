import {
  HttpError,
  ProtocolError,
  SqlError,
  type StatementKind,
  StreamError,
  statementKind,
  TransportError,
} from '@batonsql/core'
import { LibsqlBatchError, LibsqlError } from '@libsql/core/api'

/** SQLite's numbers of errors, by which tools such as Prisma know them; the original has them for files only. */
const RAW_CODES: Readonly<Record<string, number>> = {
  SQLITE_BUSY: 5,
  SQLITE_CONSTRAINT_CHECK: 275,
  SQLITE_CONSTRAINT_FOREIGNKEY: 787,
  SQLITE_CONSTRAINT_NOTNULL: 1299,
  SQLITE_CONSTRAINT_PRIMARYKEY: 1555,
  SQLITE_CONSTRAINT_TRIGGER: 1811,
  SQLITE_CONSTRAINT_UNIQUE: 2067,
  SQLITE_CONSTRAINT_ROWID: 2579,
}

/**
 * The error of @libsql/client for one of Baton's, which is its `cause`. Others, such as a RangeError, stay as they are.
 * @param at place of the failed statement in its batch; null where there is none
 */
function toLibsqlError(error: unknown, at: (error: SqlError) => number | null): unknown {
  if (error instanceof SqlError) {
    const { message, code } = error
    const extended = error.extendedCode ?? undefined
    const raw = RAW_CODES[extended ?? code]
    const index = at(error)
    return index === null
      ? new LibsqlError(message, code, extended, raw, error)
      : new LibsqlBatchError(message, index, code, extended, raw, error)
  }
  const code = codeOf(error)
  return code === null
    ? error
    : new LibsqlError((error as Error).message, code, undefined, undefined, error as Error)
}

function codeOf(error: unknown): string | null {
  if (error instanceof StreamError)
    return error.cause instanceof SqlError ? error.cause.code : 'TRANSACTION_CLOSED'
  if (error instanceof HttpError) return error.serverCode ?? 'SERVER_ERROR'
  if (error instanceof ProtocolError) return 'HRANA_PROTO_ERROR'
  // what splits a script, which the server does for the original
  if (error instanceof SyntaxError) return 'SQL_PARSE_ERROR'
  if (error instanceof TransportError) return error.code === 'CLOSED' ? 'UNKNOWN' : error.code
  return null
}

/** Runs something, and throws what it throws as @libsql/client does. @param at as in a batch, if not said otherwise */
export async function withLibsqlErrors<T>(
  run: () => Promise<T>,
  at: (error: SqlError) => number | null = ({ statementIndex }) => statementIndex,
): Promise<T> {
  try {
    return await run()
  } catch (error) {
    throw toLibsqlError(error, at)
  }
}

/**
 * Refuses what begins or ends a transaction where it would be one that the program does not think of: by itself, where a BEGIN is
 * over with its request; and in a batch, which is a transaction. @throws LibsqlError
 */
export function refuseControl(sql: string, refused: readonly StatementKind[] = CONTROL): void {
  const kind = statementKind(sql)
  if (refused.includes(kind))
    throw new LibsqlError(
      `${kind.toUpperCase()} cannot stand here: use client.transaction(), commit() and rollback()`,
      'TRANSACTION_CONTROL',
    )
}

const CONTROL: readonly StatementKind[] = ['begin', 'commit', 'rollback']
