import { SqlError } from '../base/errors.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { failWhen } from './failed-assertion.ts'

/** Runs a batch: a client, a stream, a transaction, or an adapter's equivalent. */
interface BatchExecutor {
  batch(statements: string[], options: { readonly mode: 'deferred' }): Promise<unknown>
}

/**
 * For adapters: finds the statement whose parse error made the server reject a whole batch. Bisects the batch, with one request
 * per step, and executes none of it.
 * @param executor runs the batch, in the transaction that the failed one was part of, if any
 * @returns the error with its `statementIndex`; the same error if it is of another kind, or no such statement is found
 */
export async function findFailingStatement(
  error: unknown,
  statements: readonly { readonly sql: string }[],
  executor: BatchExecutor,
): Promise<unknown> {
  if (!isParseError(error) || error.statementIndex !== null) return error
  const failsToParse = async (from: number, to: number): Promise<boolean> => {
    // the server parses all statements, and then the first one stops the batch
    const stop = `select ${failWhen('true', 'parse only')}`
    const batch = [stop, ...statements.slice(from, to).map(({ sql }) => sql)]
    try {
      await executor.batch(batch, { mode: 'deferred' })
      return false
    } catch (reason) {
      return isParseError(reason)
    }
  }
  let low = 0
  let high = statements.length
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (await failsToParse(low, middle)) high = middle
    else low = middle
  }
  return (await failsToParse(low, high))
    ? withCallerStack(withPosition(error, statements[low]?.sql, low))
    : error
}

// the parser's codes; SQLite's own begin with SQLITE_
const isParseError = (error: unknown): error is SqlError =>
  error instanceof SqlError && error.code.startsWith('SQL_')

function withPosition(error: SqlError, sql: string | undefined, index: number): SqlError {
  const { message, code, extendedCode } = error
  return new SqlError({ message, code, ...(extendedCode && { extended_code: extendedCode }) }, sql, index)
}
