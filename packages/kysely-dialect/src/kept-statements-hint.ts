import { SqlError } from '@batonsql/core'

const HINT =
  'the statements before this one are kept, because the migrations run without a transaction (see `transactionalMigrations`): '

/** Adds a hint to the error of a migration: the statements before the failed one are kept. */
export function withKeptStatementsHint(error: unknown): unknown {
  if (!(error instanceof SqlError)) return error
  const { message, code, extendedCode, sql, statementIndex, results, outcome } = error
  const wireError = {
    // first, because the names of a constraint are read from the end of the message
    message: HINT + message,
    code,
    ...(extendedCode && { extended_code: extendedCode }),
  }
  const newError = new SqlError(wireError, sql, statementIndex, results, outcome)
  if (error.stack) newError.stack = error.stack.replace(message, () => newError.message)
  return newError
}
