import type { BatchStep, Pipeline, PipelineRequest } from '../../hrana/pipeline-types.ts'
import { ResultError } from '../../hrana/result-error.ts'
import type { Database } from './database.ts'
import { MigrationError, toMigration } from './migration-program.ts'
import { tryMigration } from './run-migration.ts'
import type { Session, Step } from './session.ts'

/** A request that runs statements. */
export type ProgramRequest = Extract<PipelineRequest, { readonly type: 'execute' | 'batch' | 'sequence' }>

/**
 * Runs a request of a schema database that changes something: as a migration of all its children, and then of itself.
 * @returns the results of its statements as JSON, of a try here that was undone; null when the request only reads
 * @throws ResultError; nothing is changed then
 */
export async function migrateSchema(
  session: Session,
  database: Database,
  request: ProgramRequest,
  call: Pipeline,
): Promise<readonly (string | null)[] | null> {
  const steps = await stepsOf(session, request, call)
  if (!steps.some(({ statement }) => statement.access === 'write')) return null
  if (!session.isAutocommit) throw refusal('Interactive transactions are not allowed against a schema')
  try {
    const program = toMigration(
      steps.map(({ statement, request: { args, namedArgs } }, at) => ({
        statement,
        args,
        namedArgs,
        condition: request.type === 'batch' ? (request.steps[at] as BatchStep).condition : null,
      })),
      request.type !== 'sequence',
    )
    session.checkBlocked(steps)
    // on a connection of its own, which is left with other settings
    const results = await session.within(database, (own) => tryMigration(own, program, call.permissions))
    const failure = await session.migrate(program)
    if (failure !== null) throw new MigrationError(failure)
    return results
  } catch (error) {
    throw error instanceof MigrationError ? error.toResult(request.type === 'batch') : error
  }
}

/** To be called after a request that only reads. @throws ResultError when it has left a transaction open */
export function checkNoTransaction(session: Session): void {
  if (!session.isAutocommit) throw refusal('Connection left in transaction state')
}

async function stepsOf(
  session: Session,
  request: ProgramRequest,
  { version, permissions }: Pipeline,
): Promise<readonly Step[]> {
  switch (request.type) {
    case 'execute':
      return await session.prepareBatch(
        [{ statement: request.statement, condition: null }],
        version,
        permissions,
      )
    case 'batch':
      return await session.prepareBatch(request.steps, version, permissions)
    case 'sequence':
      return await session.prepareSequence(session.texts.textOf(request), permissions)
    default:
      return request satisfies never
  }
}

const refusal = (message: string): ResultError =>
  new ResultError('SQLITE_UNKNOWN', `SQLite error: ${message}`)
