import { type DatabaseSettings, describeBlock, type SchemaRole } from '@batonsql/server-common/backend'
import { type Permissions, PipelineFailure, ResultError } from '@batonsql/server-common/hrana'
import { getKeyword, type Statement, type Token, unquoteIdentifier } from '@batonsql/server-common/sql'
import { toResultError } from './error-mapping.ts'
import { changesSchema } from './schema-change.ts'
import { DeniedError, SqliteError, TextEncodingError } from './sqlite-connection.ts'

/** Checks that the client may run a statement. @throws PipelineFailure with status 403 */
export function checkPermissions(statement: Statement, permissions: Permissions, databaseId: string): void {
  if (statement.access === 'write' && !permissions.write) throw forbiddenError('Write', databaseId)
}

/** Rejects a change to a shared schema. @throws PipelineFailure with status 403 */
export function checkSharedSchema(
  statement: Statement,
  { changeSharedSchema }: Permissions,
  { id, role }: { readonly id: string; readonly role: SchemaRole },
): void {
  if (role !== 'child' || statement.kind !== 'schema' || changeSharedSchema) return
  const text = `DDL statements not permitted on namespace ${id}`
  throw PipelineFailure.service(403, `Authorization forbidden: ${text}`)
}

/**
 * Returns the error for a database that cannot be attached.
 * @param isPermitted whether the client may attach it: the database itself does not allow that, or does not exist
 */
export function attachRejection(name: string, isPermitted: boolean): PipelineFailure {
  if (!isPermitted) return forbiddenError('AttachRead', name)
  const text = `Namespace \`${name}\` doesn't allow attach`
  return PipelineFailure.service(403, `Authorization forbidden: ${text}`)
}

/** Rejects a statement while the database is blocked. @throws ResultError with code `BLOCKED` */
export function checkBlocked(statement: Statement, settings: DatabaseSettings): void {
  const { blockReads, blockWrites, blockReason } = settings
  if (statement.kind === 'end' || statement.kind === 'detach') return
  const isWrite = statement.access === 'write' || changesSchema(statement)
  const isBlocked = isWrite ? blockReads || blockWrites : blockReads
  if (isBlocked) throw new ResultError('BLOCKED', describeBlock(blockReason))
}

/** Returns the error for a missing permission, with the service's text, including its mistake. */
export function forbiddenError(
  permission: 'Read' | 'Write' | 'AttachRead',
  databaseId: string,
): PipelineFailure {
  const text = `Current session doesn't not have ${permission} permission to namespace ${databaseId}`
  return PipelineFailure.service(403, `Authorization forbidden: ${text}`)
}

/** Returns the error for a transaction whose write lock was preempted. */
export function transactionTimeout(): ResultError {
  return new ResultError('TRANSACTION_TIMEOUT', 'Transaction timed out')
}

/** Converts any error of a statement to an error for the client; pipeline failures are returned unchanged. */
export function toClientError(error: unknown, permissions: Permissions, databaseId: string): unknown {
  if (error instanceof TextEncodingError) return PipelineFailure.service(500, error.message)
  if (error instanceof DeniedError) {
    return permissions.write
      ? new ResultError('SQLITE_AUTH', 'SQLite error: not authorized')
      : forbiddenError('Write', databaseId)
  }
  return error instanceof SqliteError ? toResultError(error) : error
}

export function attachTarget(statement: Statement): string {
  return unquoteIdentifier(statement.sql, getTargetToken(statement)) ?? ''
}

/** Returns the statement with another name for the attached database, by which the engine opens its file. */
export function withAttachTarget(statement: Statement, file: string): Statement {
  const { start, end } = getTargetToken(statement) as Token
  const source = `${statement.sql.slice(0, start)}'${file}'${statement.sql.slice(end)}`
  return { ...statement, source }
}

function getTargetToken({ sql, tokens }: Statement): Token | undefined {
  return tokens[getKeyword(sql, tokens[1]) === 'DATABASE' ? 2 : 1]
}
