import { DatabaseError, SqlError } from './errors.ts'

/** Enough to lead out of core, an adapter and a query builder. */
const FRAMES = 40

/** How much SQL a printed error shows, in characters. */
const SQL_LENGTH = 300

/**
 * Lets the stack of an error show the statement and who made the call. An error is made where the answer is read, on whose
 * stack the caller is not; in the `catch` of an async function those that await it are. Calls that go well cost nothing.
 * @param statements those of the call, for errors that do not know which one failed; without their arguments
 */
export function withCallerStack(
  error: unknown,
  statements: readonly { readonly sql: string }[] = [],
): unknown {
  // others are the user's: a signal's reason, or what `authToken` threw
  const isOurs = error instanceof DatabaseError
  if (!isOurs && !(error instanceof TypeError || error instanceof RangeError)) return error
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = FRAMES
  // without its head and this function; a user's own `prepareStackTrace` may make anything of it
  const frames = String(new Error().stack).split('\n').slice(2).join('\n')
  Error.stackTraceLimit = limit
  if (isOurs) {
    const own = error instanceof SqlError ? error.sql : null
    const sql = (own ?? statements.map((statement) => statement.sql).join('; ')).replace(/\s+/g, ' ')
    // the same error may come again, for another call
    error.stack = `${error.name}: ${error.message}\n${sql && `  SQL: ${sql.length > SQL_LENGTH ? `${sql.slice(0, SQL_LENGTH)}…` : sql}\n`}${frames}`
  } else if (!error.stack?.includes(frames)) error.stack += `\n${frames}`
  return error
}
