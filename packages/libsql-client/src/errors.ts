import { HttpError, ProtocolError, SqlError, StreamError, TransportError } from '@batonsql/core'
import { type StatementKind, setsForeignKeys, statementKind } from '@batonsql/core/adapter'
import { LibsqlBatchError, LibsqlError } from '@libsql/core/api'

/** SQLite's error codes as numbers, which tools such as Prisma expect. The original client sets them only for `file:` URLs. */
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
 * Converts a Baton error to one of @libsql/client, with the Baton error as its `cause`. Returns other errors, such as a TypeError,
 * unchanged.
 * @param getIndex returns the index of the failed statement in its batch, or null if there is none
 */
function toLibsqlError(error: unknown, getIndex: (error: SqlError) => number | null): unknown {
  if (error instanceof SqlError) {
    const { message, code } = error
    const extendedCode = error.extendedCode ?? undefined
    const rawCode = RAW_CODES[extendedCode ?? code] ?? RAW_CODES[code]
    const index = getIndex(error)
    return index === null
      ? new LibsqlError(message, code, extendedCode, rawCode, error)
      : new LibsqlBatchError(message, index, code, extendedCode, rawCode, error)
  }
  // names the modes of @libsql/client in place of Baton's
  if (error instanceof RangeError && error.message.includes(BATON_MODES))
    return new RangeError(error.message.replace(BATON_MODES, "intMode 'bigint' or 'string'"), {
      cause: error,
    })
  const code = toErrorCode(error)
  return code === null
    ? error
    : new LibsqlError((error as Error).message, code, undefined, undefined, error as Error)
}

/** Part of core's message for an integer that a number cannot represent. */
const BATON_MODES = "intMode 'auto' or 'bigint'"

/** Returns the code of an error that is no SqlError; null if it is not an error of Baton. */
function toErrorCode(error: unknown): string | null {
  if (error instanceof StreamError)
    return error.cause instanceof SqlError ? error.cause.code : 'TRANSACTION_CLOSED'
  if (error instanceof HttpError) return error.serverCode ?? 'SERVER_ERROR'
  if (error instanceof ProtocolError) return 'HRANA_PROTO_ERROR'
  // thrown when a script is split, which the original leaves to the server
  if (error instanceof SyntaxError) return 'SQL_PARSE_ERROR'
  if (error instanceof TransportError) return error.code === 'CLOSED' ? 'UNKNOWN' : error.code
  return null
}

/**
 * Runs a function and converts its errors to errors of @libsql/client.
 * @param getIndex returns the index that the converted error has; by default, that of the statement in its batch
 */
export async function withLibsqlErrors<T>(
  run: () => Promise<T>,
  getIndex: (error: SqlError) => number | null = ({ statementIndex }) => statementIndex,
): Promise<T> {
  try {
    return await run()
  } catch (error) {
    throw toLibsqlError(error, getIndex)
  }
}

/** The index of an error of a script: it has none, unlike an error of a batch. */
export const noIndex = (): null => null

/**
 * Rejects statements that begin or end a transaction in a client call, where the transaction would end with the request, or in a batch,
 * which is itself a transaction.
 * @param rejectedKinds kinds of statements that are rejected
 * @throws LibsqlError
 */
export function rejectControl(sql: string, rejectedKinds: readonly StatementKind[] = CONTROL): void {
  const kind = statementKind(sql)
  if (rejectedKinds.includes(kind))
    throw new LibsqlError(
      `${kind.toUpperCase()} is not allowed here: use client.transaction(), commit() and rollback()`,
      'TRANSACTION_CONTROL',
    )
}

/** Rejects PRAGMA foreign_keys inside a transaction, where it has no effect. @throws LibsqlError */
export function rejectForeignKeys(sql: string): void {
  if (setsForeignKeys(sql))
    throw new LibsqlError(
      'PRAGMA foreign_keys has no effect inside a transaction: use client.migrate()',
      'TRANSACTION_CONTROL',
    )
}

const CONTROL: readonly StatementKind[] = ['begin', 'commit', 'rollback']
