import type { BatchStep, Pipeline, PipelineRequest, ResultError } from '@batonsql/server-common/hrana'
import type { JsonText } from '../protocol/json-text.ts'
import type { Database } from './database.ts'
import { MigrationError, toMigration } from './migration-program.ts'
import { dryRunMigration } from './run-migration.ts'
import type { Session } from './session.ts'
import type { Step } from './step-runner.ts'

export type ProgramRequest = Extract<PipelineRequest, { readonly type: 'execute' | 'batch' | 'sequence' }>

/**
 * Runs a request that changes a schema database as a migration: tries it on the database and its children, and then runs it on the
 * children and on the database.
 * @returns the results of its statements as JSON, from a dry run; null for a read-only request
 * @throws ResultError; nothing is changed, unless the migration failed after it had been tried successfully
 */
export async function migrateSchema(
  session: Session,
  database: Database,
  request: ProgramRequest,
  call: Pipeline,
): Promise<readonly (JsonText | null)[] | null> {
  const steps = await prepareSteps(session, request, call)
  if (!steps.some(({ statement }) => statement.access === 'write')) return null
  if (!session.isAutocommit)
    throw rejectMigration('Interactive transactions are not allowed against a schema', request)
  try {
    const program = toMigration(
      steps.map(({ statement, request: { args, namedArgs } }, index) => ({
        statement,
        args,
        namedArgs,
        condition: request.type === 'batch' ? (request.steps[index] as BatchStep).condition : null,
      })),
      request.type !== 'sequence',
    )
    session.checkBlocked(steps)
    // on a separate connection, because the dry run changes settings
    const results = await session.withSession(database, (inner) =>
      dryRunMigration(inner, program, call.permissions),
    )
    const failure = await session.migrate(program)
    if (failure !== null) throw new MigrationError(failure)
    return results
  } catch (error) {
    throw error instanceof MigrationError ? error.toResult(request.type === 'batch') : error
  }
}

/** Checks that a read-only request has left no transaction open. @throws ResultError */
export function checkNoTransaction(session: Session, request: ProgramRequest): void {
  if (!session.isAutocommit) throw rejectMigration('Connection left in transaction state', request)
}

async function prepareSteps(
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
      return await session.prepareSequence(session.texts.getText(request), permissions)
    default:
      return request satisfies never
  }
}

const rejectMigration = (message: string, { type }: ProgramRequest): ResultError =>
  new MigrationError(message).toResult(type === 'batch')
