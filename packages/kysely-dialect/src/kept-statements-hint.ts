import { SqlError } from '@batonsql/core'

/** Adds a hint to the error of a migration: the statements before the failed statement or batch are kept. */
export function withKeptStatementsHint(error: unknown, failed: 'statement' | 'batch'): unknown {
  if (!(error instanceof SqlError)) return error
  const hint = `the statements before this ${failed === 'batch' ? 'batch' : 'one'} are kept, because the migrations run without a transaction (see \`transactionalMigrations\`): `
  const { message, code, extendedCode, sql, statementIndex, results, outcome } = error
  const wireError = {
    // first, because the names of a constraint are read from the end of the message
    message: hint + message,
    code,
    ...(extendedCode && { extended_code: extendedCode }),
  }
  const newError = new SqlError(wireError, sql, statementIndex, results, outcome)
  if (error.stack) newError.stack = error.stack.replace(message, () => newError.message)
  return newError
}
