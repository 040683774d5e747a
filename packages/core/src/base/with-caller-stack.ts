import { DatabaseError, SqlError } from './errors.ts'

/** Enough frames to reach the caller through core, an adapter and a query builder. */
const FRAMES = 40

/** How much SQL a printed error shows, in characters. */
const SQL_LENGTH = 300

/**
 * Adds the SQL and the caller's frames to the stack of an error. Where a response is read, the caller is not on the stack; in
 * the `catch` block of an async function its awaiting callers are. Successful calls cost nothing.
 * @param statements of the call, without their arguments, for errors that do not name the failed one
 */
export function withCallerStack(
  error: unknown,
  statements: readonly { readonly sql: string }[] = [],
): unknown {
  // other errors are the user's: a signal's reason, or what `authToken` threw
  const isOurs = error instanceof DatabaseError
  if (!isOurs && !(error instanceof TypeError || error instanceof RangeError)) return error
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = FRAMES
  // without its first line and this function; a custom `prepareStackTrace` may return anything
  const frames = String(new Error().stack).split('\n').slice(2).join('\n')
  Error.stackTraceLimit = limit
  if (isOurs) {
    const failedSql = error instanceof SqlError ? error.sql : null
    const sql = (failedSql ?? statements.map((statement) => statement.sql).join('; ')).replace(/\s+/g, ' ')
    // one error may reject several calls
    error.stack = `${error.name}: ${error.message}\n${sql && `  SQL: ${sql.length > SQL_LENGTH ? `${sql.slice(0, SQL_LENGTH)}…` : sql}\n`}${frames}`
  } else if (!error.stack?.includes(frames)) error.stack += `\n${frames}`
  return error
}
