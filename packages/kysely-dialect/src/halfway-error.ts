import { SqlError } from '@batonsql/core'

const HALFWAY_HINT =
  'the statements before this one are kept, because the migrations run without a transaction (see `transactionalMigrations`): '

/** Says of an error of a migration that the statements before it are kept. */
export function halfwayError(error: unknown): unknown {
  if (!(error instanceof SqlError)) return error
  const { message, code, extendedCode, sql, statementIndex, results, outcome } = error
  const wireError = {
    // in front, because the names of a constraint are at the end
    message: HALFWAY_HINT + message,
    code,
    ...(extendedCode && { extended_code: extendedCode }),
  }
  const newError = new SqlError(wireError, sql, statementIndex, results, outcome)
  if (error.stack) newError.stack = error.stack.replace(message, newError.message)
  return newError
}
