import { INTERNAL_PERMISSIONS, type Permissions } from '@batonsql/server-common/hrana'
import type { JsonText } from '../protocol/json-text.ts'
import type { Database } from './database.ts'
import { decodeMigration, type MigrationProgram } from './migration-program.ts'
import type { Session } from './session.ts'

/** Table in which a child records executed migrations, as in libsql-server. */
const TASKS_TABLE = 'sqlite3_libsql_tasks'
const CREATE_TASKS_TABLE = `CREATE TABLE IF NOT EXISTS ${TASKS_TABLE} (
                job_id INTEGER PRIMARY KEY,
                status INTEGER,
                migration TEXT NOT NULL,
                error TEXT,
                finished BOOLEAN GENERATED ALWAYS AS (status = 4 OR status = 5)
            )`
const STATUS_SUCCESS = 4

/**
 * Runs a migration and rolls it back.
 * @param permissions those of the client that sends it to a schema database; a child executes it without limits
 * @returns the results of its statements as JSON; null for those whose condition is not met
 * @throws MigrationError for a statement that fails; ResultError if the transaction cannot begin
 */
export async function dryRunMigration(
  session: Session,
  program: MigrationProgram,
  permissions: Permissions = INTERNAL_PERMISSIONS,
): Promise<readonly (JsonText | null)[]> {
  return await runInTransaction(session, program, 'ROLLBACK', () =>
    session.runMigration(program, permissions),
  )
}

interface MigrationJob {
  /** The migration as text, as encoded by `encodeMigration`. */
  readonly text: string
  readonly job: number
}

/**
 * Runs a migration, unless the database has already executed it: a job that was interrupted is run again.
 * @throws MigrationError, ResultError; nothing is changed if it rejects
 */
export async function runMigration(
  session: Session,
  { role }: Database,
  migration: MigrationJob,
): Promise<void> {
  const program = decodeMigration(migration.text)
  await runInTransaction(session, program, 'COMMIT', () =>
    role === 'schema' ? runOnSchema(session, program, migration) : runOnChild(session, program, migration),
  )
}

/**
 * Stores the number of the last job in SQLite's counter of schema changes, as libsql-server does. It cannot be the number of a new job,
 * because a schema database is created empty, and only jobs change it, in the order of their numbers.
 */
async function runOnSchema(
  session: Session,
  program: MigrationProgram,
  { job }: MigrationJob,
): Promise<void> {
  const { internalEngine: engine } = session
  if (engine.readInteger('PRAGMA schema_version') === job) return
  await session.runMigration(program, INTERNAL_PERMISSIONS)
  engine.run(`PRAGMA schema_version = ${job}`)
}

async function runOnChild(
  session: Session,
  program: MigrationProgram,
  { text, job }: MigrationJob,
): Promise<void> {
  const { internalEngine: engine } = session
  engine.run(CREATE_TASKS_TABLE)
  const count = engine.readInteger(
    `SELECT count(*) FROM ${TASKS_TABLE} WHERE job_id = ${job} AND status = ${STATUS_SUCCESS}`,
  )
  if (count > 0) return
  await session.runMigration(program, INTERNAL_PERMISSIONS)
  const migration = `'${text.replaceAll("'", "''")}'`
  engine.run(
    `INSERT OR REPLACE INTO ${TASKS_TABLE} (job_id, status, migration) VALUES (${job}, ${STATUS_SUCCESS}, ${migration})`,
  )
}

async function runInTransaction<T>(
  session: Session,
  program: MigrationProgram,
  end: 'COMMIT' | 'ROLLBACK',
  run: () => Promise<T>,
): Promise<T> {
  // before BEGIN, because the pragma has no effect inside a transaction; foreign keys stay off, because no client uses this session
  if (disablesForeignKeys(program)) session.internalEngine.run('PRAGMA foreign_keys = off')
  await session.control('BEGIN IMMEDIATE')
  try {
    const result = await run()
    await session.control(end)
    return result
  } finally {
    if (!session.isAutocommit) await session.control('ROLLBACK')
  }
}

/**
 * Whether foreign keys are off during a migration. In libsql-server, any PRAGMA at the start of a migration turns them off, even
 * `foreign_keys = on`, unless a comment or semicolon precedes it, or a comment directly follows the word.
 */
function disablesForeignKeys({ steps: [first] }: MigrationProgram): boolean {
  return /^\s*pragma\s/i.test(first?.sql ?? '')
}
