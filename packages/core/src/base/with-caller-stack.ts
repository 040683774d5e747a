import { copyError, DatabaseError, SqlError } from './errors.ts'

/** Enough stack frames to reach the caller through core, an adapter and a query builder. */
const MAX_FRAMES = 40

/** Maximum length of the SQL that a printed error shows, in characters. */
const MAX_SQL_LENGTH = 300

/** Errors that have the stack of a caller. */
const hasStack = new WeakSet<Error>()

/**
 * Adds the SQL and the caller's frames to the stack of an error. The caller is not on the stack of the code that reads the
 * response, but it is on that of the `catch` block of an async function that it awaits. Costs nothing for successful calls.
 * @param statements those of the call, without their arguments, for errors that do not name the failed statement
 */
export function withCallerStack(
  error: unknown,
  statements: readonly { readonly sql: string }[] = [],
): unknown {
  // other errors are the user's: a signal's reason, or what `authToken` threw
  const isOurs = error instanceof DatabaseError
  if (!isOurs && !(error instanceof TypeError || error instanceof RangeError)) return error
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = MAX_FRAMES
  // without its first line and this function; a custom `prepareStackTrace` may return anything
  const frames = String(new Error().stack).split('\n').slice(2).join('\n')
  Error.stackTraceLimit = limit
  if (isOurs) {
    // one error may reject several calls
    const ownError = hasStack.has(error) ? copyError(error) : error
    hasStack.add(ownError)
    const failedSql = error instanceof SqlError ? error.sql : null
    const sql = (failedSql ?? statements.map((statement) => statement.sql).join('; ')).replace(/\s+/g, ' ')
    ownError.stack = `${error.name}: ${error.message}\n${sql && `  SQL: ${sql.length > MAX_SQL_LENGTH ? `${sql.slice(0, MAX_SQL_LENGTH)}…` : sql}\n`}${frames}`
    return ownError
  }
  if (!error.stack?.includes(frames)) error.stack += `\n${frames}`
  return error
}
