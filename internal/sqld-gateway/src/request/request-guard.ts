import type { PipelineRequest, StatementRequest } from '@batonsql/server-common/hrana'
import { deferTransactions, limitVectorSearches, memoize } from '@batonsql/server-common/sql'
import { type ResolveName, replaceAttachNames } from './attach-names.ts'
import { findRejection, hasAttach, type SqlProblem, type SqlUse } from './sql-guard.ts'
import { isWord, splitTokens, tokenizeSql } from './sql-tokens.ts'

/** A statement that the server rejects as blocked if reads are blocked. */
const READ_STATEMENT = 'SELECT 1'
/**
 * A statement that the server rejects with 403 for senders without write permission, and for others because the table does not
 * exist.
 */
const NEEDS_WRITE_PERMISSION = 'UPDATE "refused" SET a = 1'

const STORED_ON_REPLICA = {
  type: 'rejected',
  name: 'stored SQL',
  reason: 'a replica may execute it when preparing it',
} as const

/** Permissions of the sender of a request, and the state of its stream. */
export interface GuardContext extends Pick<SqlUse, 'mayWrite' | 'attach' | 'isReplica'> {
  readonly resolveName: ResolveName
  readonly blockReads: boolean
  /** Whether programs that write are migrations. */
  readonly isSchema: boolean
}

/** Whether any of the requests attaches a database, or stores SQL that does. */
export function attachesDatabase(requests: readonly PipelineRequest[]): boolean {
  return requests.some((request) => {
    if (request.type === 'batch') return request.steps.some(({ statement }) => hasAttach(statement.sql ?? ''))
    if (request.type === 'execute') return hasAttach(request.statement.sql ?? '')
    return 'sql' in request && hasAttach(request.sql ?? '')
  })
}

/**
 * Replaces each statement that must not reach the server with one that the server rejects, so that the error has the position
 * and the form of any other SQL error.
 */
export function guardRequest(request: PipelineRequest, context: GuardContext): PipelineRequest {
  if (context.isSchema && crashesMigration(request)) return executeRequest(rejectedSql(END_FIRST))
  switch (request.type) {
    case 'execute':
      return { ...request, statement: guardStatement(request.statement, context) }
    case 'batch':
      return {
        ...request,
        steps: request.steps.map((step) => ({ ...step, statement: guardStatement(step.statement, context) })),
      }
    case 'sequence':
      return request.sql === null ? request : { ...request, sql: guardSql(request.sql, context, 'run') }
    case 'store_sql':
      return { ...request, sql: guardSql(request.sql, context, 'store') }
    case 'describe':
      return guardDescribe(request, context)
    case 'close_sql':
    case 'get_autocommit':
    case 'close':
      return request
    default:
      return request satisfies never
  }
}

const END_FIRST = {
  type: 'rejected',
  name: 'the end of a transaction',
  reason: 'the server would exit if a migration began with it',
} as const
const CHANGES_NOTHING = /^(?:select|values|commit|end|rollback|begin|savepoint|release|explain)$/i

/**
 * Whether the first statement of a migration, after its pragmas, ends a transaction, which makes libsql-server exit. A request that
 * changes nothing is no migration; SQL to be stored always counts as one.
 */
function crashesMigration(request: PipelineRequest): boolean {
  const texts =
    request.type === 'batch'
      ? request.steps.map(({ statement }) => statement.sql)
      : [request.type === 'sequence' || request.type === 'store_sql' ? request.sql : null]
  const statements = texts.flatMap((sql) => (sql === null ? [null] : splitTokens(tokenizeSql(sql).tokens)))
  const first = statements.find(
    (statement) => statement?.[0] !== undefined && !isWord(statement[0], 'pragma'),
  )
  const isEnd =
    /^(?:commit|end|rollback)$/i.test(first?.[0]?.text ?? '') && !first?.some((token) => isWord(token, 'to'))
  if (!isEnd) return false
  const mayChange = statements.some((statement) => !CHANGES_NOTHING.test(statement?.[0]?.text ?? ''))
  return request.type === 'store_sql' || mayChange
}

type DescribeRequest = Extract<PipelineRequest, { readonly type: 'sequence' | 'describe' }>

function guardDescribe(request: DescribeRequest, context: GuardContext): PipelineRequest {
  // the server itself does not block this
  if (context.blockReads && request.type === 'describe') return executeRequest(READ_STATEMENT)
  // the effect of preparing stored SQL is unknown here
  if (request.sqlId !== null && !context.mayWrite) return executeRequest(NEEDS_WRITE_PERMISSION)
  if (request.sqlId !== null && context.isReplica === true)
    return executeRequest(rejectedSql(STORED_ON_REPLICA))
  if (request.sql === null) return request
  const sql = toAllowedSql(request.sql, { ...context, kind: 'describe' })
  // the server would allow describing a write
  return sql === null ? executeRequest(NEEDS_WRITE_PERMISSION) : { ...request, sql }
}

function executeRequest(sql: string): PipelineRequest {
  return { type: 'execute', statement: { sql, sqlId: null, args: [], namedArgs: [] } }
}

function guardStatement(statement: StatementRequest, context: GuardContext): StatementRequest {
  if (statement.sql === null) return statement
  const sql = guardSql(statement.sql, context, 'run')
  return sql === statement.sql ? statement : { ...statement, sql }
}

function guardSql(sql: string, context: GuardContext, kind: SqlUse['kind']): string {
  const text = replaceAttachNames(sql, context.resolveName)
  if (kind === 'run' && context.attach === undefined) return chooseGuard(context)(text)
  return toAllowedSql(text, { ...context, kind }) ?? NEEDS_WRITE_PERMISSION
}

const guardWriterSql = memoize((sql) => guardRun(sql, { mayWrite: true }))
const guardWriterSqlOnReplica = memoize((sql) => guardRun(sql, { mayWrite: true, isReplica: true }))
const guardReaderSql = memoize((sql) => guardRun(sql, { mayWrite: false }))

function chooseGuard({ mayWrite, isReplica }: GuardContext): (sql: string) => string {
  if (!mayWrite) return guardReaderSql
  return isReplica === true ? guardWriterSqlOnReplica : guardWriterSql
}

function guardRun(sql: string, use: Omit<SqlUse, 'kind'>): string {
  return toAllowedSql(sql, { kind: 'run', ...use }) ?? NEEDS_WRITE_PERMISSION
}

/** Returns the text in the form that may reach the server, or one that fails there; null without permission. */
function toAllowedSql(sql: string, use: SqlUse): string | null {
  const rejection = findRejection(sql, use)
  if (rejection?.type === 'permissions') return null
  // checked before bounding: bounded searches are safe, and much longer than the original
  if (rejection !== null) return rejectedSql(rejection)
  return limitVectorSearches(use.mayWrite ? sql : deferTransactions(sql))
}

/** Returns SQL that fails with `no such function: <name> (refused: <reason>)`. */
function rejectedSql({ name, reason }: Extract<SqlProblem, { readonly type: 'rejected' }>): string {
  const plain = name.replace(/[^\p{L}\p{N} _$-]/gu, '').slice(0, 64)
  return `SELECT "${plain} (refused: ${reason})"()`
}
