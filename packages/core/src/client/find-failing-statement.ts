import { SqlError } from '../base/errors.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { failWhen } from './failed-assertion.ts'

/** Fails before any other statement of a batch runs. The server parses all statements of a batch before it runs one. */
const failing = (): string => `select ${failWhen('true', 'only to be read, not to be run')}`

/** Runs a batch: a client, a stream, a transaction, or an adapter's equivalent. */
interface BatchExecutor {
  batch(statements: string[], options: { readonly mode: 'deferred' }): Promise<unknown>
}

/**
 * For adapters: finds the statement that does not parse. The server rejects the whole batch without naming it. Sends a request
 * for each halving of the batch, and executes none of it.
 * @param executor runs the batch, in the transaction that the failed one was part of, if any
 * @returns the error with its `statementIndex`; the same error when it is of another kind, or none is found
 */
export async function findFailingStatement(
  error: unknown,
  statements: readonly { readonly sql: string }[],
  executor: BatchExecutor,
): Promise<unknown> {
  if (!isRefusal(error) || error.statementIndex !== null) return error
  const isRefused = async (from: number, to: number): Promise<boolean> => {
    const batch = [failing(), ...statements.slice(from, to).map(({ sql }) => sql)]
    try {
      await executor.batch(batch, { mode: 'deferred' })
      return false
    } catch (reason) {
      return isRefusal(reason)
    }
  }
  let readable = 0
  let refused = statements.length
  while (refused - readable > 1) {
    const middle = (readable + refused) >> 1
    if (await isRefused(readable, middle)) refused = middle
    else readable = middle
  }
  return (await isRefused(readable, refused))
    ? withCallerStack(located(error, statements[readable]?.sql, readable))
    : error
}

// the parser's codes; SQLite's own begin with SQLITE_
const isRefusal = (error: unknown): error is SqlError =>
  error instanceof SqlError && error.code.startsWith('SQL_')

function located(error: SqlError, sql: string | undefined, at: number): SqlError {
  const { message, code, extendedCode } = error
  return new SqlError({ message, code, ...(extendedCode && { extended_code: extendedCode }) }, sql, at)
}
