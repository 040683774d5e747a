import {
  type Dialect,
  encodeError,
  type Pipeline,
  PipelineFailure,
  type PipelineRequest,
  ResultError,
} from '@batonsql/server-common/hrana'
import { concat, type JsonText, joinWithCommas } from '../protocol/json-text.ts'
import type { Database } from './database.ts'
import { checkNoTransaction, migrateSchema, type ProgramRequest } from './schema-requests.ts'
import type { BatchOutcome, Session } from './session.ts'

export interface PipelineOutcome {
  /** JSON array of the results. */
  readonly text: JsonText
  readonly isClosed: boolean
}

/** Runs the requests of a pipeline in order; a failed request does not stop the next. */
export async function runPipeline(
  session: Session,
  database: Database,
  call: Pipeline,
): Promise<PipelineOutcome> {
  const results: JsonText[] = []
  let isClosed = false
  for (const request of call.requests) {
    await session.pause()
    if (request.type === 'close') {
      isClosed = true
      results.push(ok('{"type":"close"}'))
      continue
    }
    if (request.type === 'get_autocommit' && call.version < 3) {
      throw PipelineFailure.protocol(
        'The `get_autocommit` request is only supported in protocol version hrana3 and higher',
      )
    }
    if (isClosed && request.type !== 'store_sql' && request.type !== 'close_sql') {
      throw PipelineFailure.protocol('Stream for this baton was closed')
    }
    try {
      results.push(ok(await respond(session, database, request, call)))
    } catch (error) {
      if (!(error instanceof ResultError)) throw error
      results.push(`{"type":"error","error":${encodeError(error, database.dialect)}}`)
    }
  }
  // Turso Cloud closes a stream that has no state, so the client receives no baton
  if (database.dialect === 'cloud' && session.isPristine) isClosed = true
  return { text: concat('[', joinWithCommas(results), ']'), isClosed }
}

type OpenStreamRequest = Exclude<PipelineRequest, { readonly type: 'close' }>

/**
 * Executes a request. On a schema database, a request that changes something runs as a migration of the databases that share the
 * schema. Any other request runs as usual, but may not leave a transaction open.
 */
async function respond(
  session: Session,
  database: Database,
  request: OpenStreamRequest,
  call: Pipeline,
): Promise<JsonText> {
  if (database.role === 'schema' && isProgramRequest(request)) {
    const migrated = await migrateSchema(session, database, request, call)
    if (migrated !== null) return encodeProgram(request, migrated, database.dialect)
    const response = await encodeResponse(session, database, request, call)
    checkNoTransaction(session, request)
    return response
  }
  return await encodeResponse(session, database, request, call)
}

async function encodeResponse(
  session: Session,
  database: Database,
  request: OpenStreamRequest,
  call: Pipeline,
): Promise<JsonText> {
  switch (request.type) {
    case 'execute':
      return encodeExecute(await session.execute(request.statement, call.permissions))
    case 'batch': {
      const outcome = await session.batch(request.steps, call.version, call.permissions)
      return encodeBatch(outcome, database)
    }
    case 'sequence':
      await session.sequence(session.texts.getText(request), call.permissions)
      return '{"type":"sequence"}'
    case 'describe':
      return `{"type":"describe","result":${await session.describe(session.texts.getText(request), call.permissions)}}`
    case 'store_sql':
      session.texts.store(request.sqlId, request.sql)
      return '{"type":"store_sql"}'
    case 'close_sql':
      session.texts.forget(request.sqlId)
      return '{"type":"close_sql"}'
    case 'get_autocommit':
      return `{"type":"get_autocommit","is_autocommit":${session.isAutocommit}}`
    default:
      return request satisfies never
  }
}

function isProgramRequest(request: OpenStreamRequest): request is ProgramRequest {
  return request.type === 'execute' || request.type === 'batch' || request.type === 'sequence'
}

function encodeProgram(
  { type }: ProgramRequest,
  results: readonly (JsonText | null)[],
  dialect: Dialect | null,
): JsonText {
  switch (type) {
    case 'execute':
      return encodeExecute(results[0] as JsonText)
    case 'batch':
      return encodeBatch({ results, errors: results.map(() => null) }, { replicationIndex: null, dialect })
    case 'sequence':
      return '{"type":"sequence"}'
    default:
      return type satisfies never
  }
}

function ok(response: JsonText): JsonText {
  return concat('{"type":"ok","response":', response, '}')
}

function encodeExecute(result: JsonText): JsonText {
  return concat('{"type":"execute","result":', result, '}')
}

function encodeBatch(
  { results, errors }: BatchOutcome,
  { replicationIndex, dialect }: Pick<Database, 'replicationIndex' | 'dialect'>,
): JsonText {
  const stepResults = joinWithCommas(results.map((result) => result ?? 'null'))
  const stepErrors = errors.map((error) => (error === null ? 'null' : encodeError(error, dialect))).join()
  return concat(
    '{"type":"batch","result":{"step_results":[',
    stepResults,
    `],"step_errors":[${stepErrors}],"replication_index":${JSON.stringify(replicationIndex)}}}`,
  )
}
