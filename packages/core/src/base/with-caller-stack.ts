import { copyError, identityOf, SqlError } from './errors.ts'

/** Enough stack frames to reach the caller through core, an adapter and a query builder. */
const MAX_FRAMES = 40

/** Maximum length of the SQL that a printed error shows, in characters. */
const MAX_SQL_LENGTH = 300

/**
 * Returns the error that a method rejects with: a copy of what happened inside, with the SQL and the caller's frames in its stack.
 * Call it in the `catch` block of an async function: the stack of V8 includes the functions that await it, but not in the code that
 * reads the response. Costs nothing for successful calls. The user's own errors, such as a signal's reason, are returned unchanged.
 * @param statements the statements of the call, without their arguments, for errors that do not name the failed statement
 */
export function withCallerStack(
  error: unknown,
  statements: readonly { readonly sql: string }[] = [],
): unknown {
  if (!(error instanceof Error && identityOf(error))) return error
  const { stackTraceLimit } = Error
  // an assignment would throw under `--frozen-intrinsics`
  Reflect.set(Error, 'stackTraceLimit', MAX_FRAMES)
  // without its first line and this function; a custom `prepareStackTrace` may return anything
  const frames = String(new Error().stack).split('\n').slice(2).join('\n')
  Reflect.set(Error, 'stackTraceLimit', stackTraceLimit)
  const failedSql = error instanceof SqlError ? error.sql : null
  const sql = (failedSql ?? statements.map((statement) => statement.sql).join('; ')).replace(/\s+/g, ' ')
  const shownSql = sql.length > MAX_SQL_LENGTH ? `${sql.slice(0, MAX_SQL_LENGTH)}…` : sql
  return copyError(error, {
    stack: `${error.name}: ${error.message}\n${sql && `  SQL: ${shownSql}\n`}${frames}`,
  })
}
