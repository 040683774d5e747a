import { MIGRATION } from '../../hrana/permissions.ts'
import type { Permissions } from '../../hrana/pipeline-types.ts'
import type { Database } from './database.ts'
import { decodeMigration, MigrationError, type MigrationProgram } from './migration-program.ts'
import type { Session } from './session.ts'

/** Where a child notes which migrations it has had; libsql-server has the same table. */
const TASKS = 'sqlite3_libsql_tasks'
const CREATE_TASKS = `CREATE TABLE IF NOT EXISTS ${TASKS} (
                job_id INTEGER PRIMARY KEY,
                status INTEGER,
                migration TEXT NOT NULL,
                error TEXT,
                finished BOOLEAN GENERATED ALWAYS AS (status = 4 OR status = 5)
            )`
const SUCCESS = 4

/** Tries a migration out, with the rights of its sender. @returns the results of its statements as JSON @throws MigrationError; nothing is changed */
export async function tryMigration(
  session: Session,
  program: MigrationProgram,
  permissions: Permissions = MIGRATION,
): Promise<readonly (string | null)[]> {
  return await inTransaction(session, program, 'ROLLBACK', () => session.runMigration(program, permissions))
}

/** Runs a migration, unless the database has had it. @throws MigrationError; nothing is changed then */
export async function runMigration(
  session: Session,
  { role }: Database,
  { text, job }: { readonly text: string; readonly job: number },
): Promise<void> {
  const program = decodeMigration(text)
  await inTransaction(session, program, 'COMMIT', async () => {
    const { own } = session
    if (role === 'schema') {
      if (own.readInteger('PRAGMA schema_version') === job) return
      await session.runMigration(program, MIGRATION)
      // a migration that was interrupted is gone on with: this says that it has come so far
      own.run(`PRAGMA schema_version = ${job}`)
      return
    }
    own.run(CREATE_TASKS)
    if (own.readInteger(`SELECT count(*) FROM ${TASKS} WHERE job_id = ${job} AND status = ${SUCCESS}`) > 0)
      return
    await session.runMigration(program, MIGRATION)
    const migration = `'${text.replaceAll("'", "''")}'`
    own.run(
      `INSERT OR REPLACE INTO ${TASKS} (job_id, status, migration) VALUES (${job}, ${SUCCESS}, ${migration})`,
    )
  })
}

/** A sentence for the failure of a migration, whatever it was. */
export function failureOf(error: unknown): string {
  return error instanceof MigrationError || error instanceof Error ? error.message : String(error)
}

async function inTransaction<T>(
  session: Session,
  program: MigrationProgram,
  end: 'COMMIT' | 'ROLLBACK',
  run: () => Promise<T>,
): Promise<T> {
  // inside the transaction the pragma would do nothing
  if (turnsForeignKeysOff(program)) session.own.run('PRAGMA foreign_keys = off')
  await session.control('BEGIN IMMEDIATE')
  try {
    const result = await run()
    await session.control(end)
    return result
  } finally {
    if (!session.isAutocommit) await session.control('ROLLBACK')
  }
}

/** Whether one of the pragmas in front says so. */
function turnsForeignKeysOff({ steps }: MigrationProgram): boolean {
  const first = steps.findIndex(({ kind }) => kind !== 'Pragma')
  return steps
    .slice(0, first < 0 ? steps.length : first)
    .some(({ sql }) => /\bforeign_keys\s*[=(]\s*'?(?:off|0|false|no)\b/i.test(sql))
}
