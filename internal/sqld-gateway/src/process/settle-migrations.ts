import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { loadSqliteModule } from '@batonsql/server-common/base'

/** States of a migration (table `jobs`). */
const JOB = { waitingDryRun: 0, runFailure: 5 } as const
/** States of a migration of one database (table `pending_tasks`). */
const TASK = { dryRunSuccess: 1, dryRunFailure: 2, success: 4, failure: 5 } as const

const UNFINISHED = 'SELECT job_id AS job, schema FROM jobs WHERE NOT finished ORDER BY job_id'
const INTERRUPTED = 'the server stopped during the migration'

/**
 * Repairs the state of interrupted migrations of shared schemas; the server must not be running. A libsql-server that was
 * killed during a migration derives the migration's state from the states of the databases, and crashes at every start if the
 * migration is done in all of them. This function changes them to states from which the server can resume.
 *
 * Resuming executes nothing twice: each database records executed migrations in its own file.
 * @param dataFolder folder of libsql-server's data
 * @param failAll whether to fail all unfinished migrations, for a server that crashes when it resumes them
 * @returns whether the server resumes any
 */
export async function settleMigrations(dataFolder: string, failAll: boolean): Promise<boolean> {
  const path = join(dataFolder, 'metastore', 'data')
  const stats = await stat(path).catch(() => null)
  if (stats === null) return false
  const database = new (loadSqliteModule().DatabaseSync)(path)
  try {
    if (!hasTables(database)) return false
    const unfinished = database.prepare(UNFINISHED).all() as { job: number; schema: string }[]
    database.exec('BEGIN IMMEDIATE')
    const outcomes = unfinished.map(({ job }) => settle(database, job, failAll))
    database.exec('COMMIT')
    for (const [index, { job, schema }] of unfinished.entries()) {
      const outcome =
        outcomes[index] === 'failed' ? 'has failed; see /v1/jobs for the reason' : 'will be resumed'
      console.error(`migration ${job} of the shared schema ${schema} was interrupted and ${outcome}`)
    }
    return outcomes.includes('resumed')
  } finally {
    database.close()
  }
}

function hasTables(database: DatabaseSync): boolean {
  const tables = database.prepare("SELECT 1 FROM sqlite_schema WHERE name IN ('jobs', 'pending_tasks')").all()
  return tables.length === 2
}

/** Settles a migration. @returns whether the server resumes it when it starts, or fails it */
function settle(database: DatabaseSync, job: number, failAll: boolean): 'resumed' | 'failed' {
  const tasks = database.prepare('SELECT status FROM pending_tasks WHERE job_id = ?').all(job)
  const states = tasks.map(({ status }) => Number(status))
  const isFailed = states.some((state) => state === TASK.dryRunFailure || state === TASK.failure)
  if (failAll || isFailed) {
    fail(database, job)
    return 'failed'
  }
  if (states.length === 0)
    database.prepare('UPDATE jobs SET status = ? WHERE job_id = ?').run(JOB.waitingDryRun, job)
  else if (states.every((state) => state === TASK.success)) {
    // when retried, a database reports success at once; then the schema itself is migrated
    const first = 'SELECT min(task_id) FROM pending_tasks WHERE job_id = ?'
    database
      .prepare(`UPDATE pending_tasks SET status = ? WHERE task_id = (${first})`)
      .run(TASK.dryRunSuccess, job)
  }
  return 'resumed'
}

/** Marks a migration as failed in each database that has not executed it; the server then fails it as a whole. */
function fail(database: DatabaseSync, job: number): void {
  const cause = database
    .prepare('SELECT error FROM pending_tasks WHERE job_id = ? AND error IS NOT NULL LIMIT 1')
    .get(job)
  const error = String(cause?.['error'] ?? INTERRUPTED)
  database.prepare('UPDATE jobs SET error = coalesce(error, ?) WHERE job_id = ?').run(error, job)
  // the server would wait forever for the databases that have executed it to fail too
  database.prepare('DELETE FROM pending_tasks WHERE job_id = ? AND status = ?').run(job, TASK.success)
  const { changes } = database
    .prepare('UPDATE pending_tasks SET status = ? WHERE job_id = ?')
    .run(TASK.dryRunFailure, job)
  if (changes === 0) database.prepare('UPDATE jobs SET status = ? WHERE job_id = ?').run(JOB.runFailure, job)
}
