import {
  type Dialect,
  encodeError,
  type Pipeline,
  PipelineFailure,
  type PipelineRequest,
  ResultError,
} from '@batonsql/server-common/hrana'
import type { Database } from './database.ts'
import { checkNoTransaction, migrateSchema, type ProgramRequest } from './schema-requests.ts'
import type { BatchOutcome, Session } from './session.ts'

/** The outcome of a pipeline. */
export interface PipelineOutcome {
  /** JSON array of the results. */
  readonly text: string
  readonly isClosed: boolean
}

/** Runs the requests of a pipeline in order; a failed request does not stop the next. */
export async function runPipeline(
  session: Session,
  database: Database,
  call: Pipeline,
): Promise<PipelineOutcome> {
  const results: string[] = []
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
  // the cloud closes a stream without state
  if (database.dialect === 'cloud' && session.isPristine) isClosed = true
  return { text: `[${results.join()}]`, isClosed }
}

type OpenRequest = Exclude<PipelineRequest, { readonly type: 'close' }>

async function respond(
  session: Session,
  database: Database,
  request: OpenRequest,
  call: Pipeline,
): Promise<string> {
  if (database.role === 'schema' && runsProgram(request)) {
    const migrated = await migrateSchema(session, database, request, call)
    if (migrated !== null) return encodeProgram(request, migrated, database.dialect)
    const response = await encodeResponse(session, database, request, call)
    checkNoTransaction(session)
    return response
  }
  return await encodeResponse(session, database, request, call)
}

async function encodeResponse(
  session: Session,
  database: Database,
  request: OpenRequest,
  call: Pipeline,
): Promise<string> {
  switch (request.type) {
    case 'execute':
      return `{"type":"execute","result":${await session.execute(request.statement, call.permissions)}}`
    case 'batch': {
      const outcome = await session.batch(request.steps, call.version, call.permissions)
      return `{"type":"batch","result":${encodeBatch(outcome, database)}}`
    }
    case 'sequence':
      await session.sequence(session.texts.textOf(request), call.permissions)
      return '{"type":"sequence"}'
    case 'describe':
      return `{"type":"describe","result":${await session.describe(session.texts.textOf(request), call.permissions)}}`
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

function runsProgram(request: OpenRequest): request is ProgramRequest {
  return request.type === 'execute' || request.type === 'batch' || request.type === 'sequence'
}

function encodeProgram(
  { type }: ProgramRequest,
  results: readonly (string | null)[],
  dialect: Dialect | null,
): string {
  switch (type) {
    case 'execute':
      return `{"type":"execute","result":${results[0]}}`
    case 'batch':
      return `{"type":"batch","result":${encodeBatch({ results, errors: results.map(() => null) }, { replicationIndex: null, dialect })}}`
    case 'sequence':
      return '{"type":"sequence"}'
    default:
      return type satisfies never
  }
}

function ok(response: string): string {
  return `{"type":"ok","response":${response}}`
}

function encodeBatch(
  { results, errors }: BatchOutcome,
  { replicationIndex, dialect }: Pick<Database, 'replicationIndex' | 'dialect'>,
): string {
  const stepResults = results.map((result) => result ?? 'null').join()
  const stepErrors = errors.map((error) => (error === null ? 'null' : encodeError(error, dialect))).join()
  const index = replicationIndex === null ? 'null' : `"${replicationIndex}"`
  return `{"step_results":[${stepResults}],"step_errors":[${stepErrors}],"replication_index":${index}}`
}
