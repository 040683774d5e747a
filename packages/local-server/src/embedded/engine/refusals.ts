import type { DatabaseSettings } from '../../backend.ts'
import { PipelineFailure } from '../protocol/pipeline-failure.ts'
import type { Permissions } from '../protocol/pipeline-types.ts'
import { ArgumentsError } from './arguments.ts'
import { DeniedError, EngineError, TextEncodingError, ValueTooBigError } from './engine-connection.ts'
import { resultErrorOf } from './error-mapping.ts'
import { ResultError } from './result-error.ts'
import { PreemptedError } from './running-statement.ts'
import { identifier, upper } from './sql/sql-scanner.ts'
import type { Statement } from './sql/statement.ts'

/** Refuses a statement the client has no permission for. @throws PipelineFailure with status 403 */
export function checkPermissions(statement: Statement, permissions: Permissions, databaseId: string): void {
  if (statement.access === 'read' && !permissions.read) throw forbidden('Read', databaseId)
  if (statement.access === 'write' && !permissions.write) throw forbidden('Write', databaseId)
  if (statement.access === 'attach') {
    const name = attachTarget(statement)
    throw PipelineFailure.service(403, `Authorization forbidden: Namespace \`${name}\` doesn't allow attach`)
  }
}

/** Refuses a statement while the database is blocked. @throws ResultError with code `BLOCKED` */
export function checkBlocked(statement: Statement, settings: DatabaseSettings): void {
  const { blockReads, blockWrites, blockReason } = settings
  if (statement.kind === 'end' || statement.kind === 'detach') return
  const isBlocked = statement.access === 'write' ? blockReads || blockWrites : blockReads
  if (!isBlocked) return
  throw new ResultError('BLOCKED', `Operation was blocked${blockReason === null ? '' : `: ${blockReason}`}`)
}

/** The refusal of a client without a permission, in the service's words. */
export function forbidden(permission: 'Read' | 'Write', databaseId: string): PipelineFailure {
  const text = `Current session doesn't not have ${permission} permission to namespace ${databaseId}`
  return PipelineFailure.service(403, `Authorization forbidden: ${text}`)
}

/** The write lock was taken away, and the transaction with it. */
export function transactionTimeout(): ResultError {
  return new ResultError('TRANSACTION_TIMEOUT', 'Transaction timed out')
}

/** What the client is answered for whatever a statement can throw; failures of the pipeline pass through. */
export function toAnswer(error: unknown, permissions: Permissions, databaseId: string): unknown {
  if (error instanceof ArgumentsError) {
    return new ResultError('ARGS_INVALID', `Arguments do not match SQL parameters: ${error.message}`)
  }
  if (error instanceof PreemptedError) return transactionTimeout()
  if (error instanceof ValueTooBigError)
    return new ResultError('SQLITE_TOOBIG', `SQLite error: ${error.message}`)
  if (error instanceof TextEncodingError) return PipelineFailure.service(500, error.message)
  if (error instanceof DeniedError) {
    return permissions.write
      ? new ResultError('SQLITE_AUTH', 'SQLite error: not authorized')
      : forbidden('Write', databaseId)
  }
  return error instanceof EngineError ? resultErrorOf(error) : error
}

function attachTarget({ sql, tokens }: Statement): string {
  return identifier(sql, tokens[upper(sql, tokens[1]) === 'DATABASE' ? 2 : 1]) ?? ''
}
