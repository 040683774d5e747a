import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { sqliteModule } from '../../base/sqlite-module.ts'

/** States of a migration (table `jobs`). */
const JOB = { waitingDryRun: 0, runFailure: 5 } as const
/** States of a migration in one database (table `pending_tasks`). */
const TASK = { dryRunSuccess: 1, dryRunFailure: 2, success: 4, failure: 5 } as const

const UNFINISHED = 'SELECT job_id AS job, schema FROM jobs WHERE NOT finished ORDER BY job_id'
const INTERRUPTED = 'the server ended while the migration ran'

/** A migration that was not over when the server ended. */
export interface SettledMigration {
  readonly job: number
  /** The database whose schema is shared. */
  readonly schema: string
  /** Whether the server goes on with it at its start, or ends it as failed. */
  readonly outcome: 'continued' | 'failed'
}

/** What is done with migrations. */
export interface SettleOptions {
  /** Ends all of them as failed: for a server that does not survive going on with them. */
  readonly giveUp: boolean
}

/**
 * A libsql-server that was killed in a migration of a shared schema reads the state of the migration from the states of
 * its databases, and ends at once when all of these are done: at each start, for all databases. So the states are written
 * in a form that it goes on from. To be called while it does not run.
 *
 * Going on does nothing twice: each database notes in its own file what it has run.
 */
export async function settleMigrations(
  dataFolder: string,
  { giveUp }: SettleOptions,
): Promise<readonly SettledMigration[]> {
  const path = join(dataFolder, 'metastore', 'data')
  const isThere = await stat(path).catch(() => null)
  if (isThere === null) return []
  const database = new (sqliteModule().DatabaseSync)(path)
  try {
    if (!hasTables(database)) return []
    const unfinished = database.prepare(UNFINISHED).all() as { job: number; schema: string }[]
    database.exec('BEGIN IMMEDIATE')
    const settled = unfinished.map(
      ({ job, schema }): SettledMigration => ({ job, schema, outcome: settle(database, job, giveUp) }),
    )
    database.exec('COMMIT')
    return settled
  } finally {
    database.close()
  }
}

/** The same at a start, with a message for each. @returns whether there is a migration to go on with */
export async function settleAtStart(dataFolder: string, giveUp: boolean): Promise<boolean> {
  const settled = await settleMigrations(dataFolder, { giveUp })
  for (const { job, schema, outcome } of settled) {
    const what = outcome === 'failed' ? 'has failed; /v1/jobs says why' : 'goes on'
    console.error(`migration ${job} of the shared schema ${schema} was interrupted and ${what}`)
  }
  return settled.some(({ outcome }) => outcome === 'continued')
}

function hasTables(database: DatabaseSync): boolean {
  const found = database.prepare("SELECT 1 FROM sqlite_schema WHERE name IN ('jobs', 'pending_tasks')").all()
  return found.length === 2
}

function settle(database: DatabaseSync, job: number, giveUp: boolean): SettledMigration['outcome'] {
  const found = database.prepare('SELECT status FROM pending_tasks WHERE job_id = ?').all(job)
  const states = found.map(({ status }) => Number(status))
  const isFailed = states.some((state) => state === TASK.dryRunFailure || state === TASK.failure)
  if (giveUp || isFailed) {
    fail(database, job)
    return 'failed'
  }
  if (states.length === 0)
    database.prepare('UPDATE jobs SET status = ? WHERE job_id = ?').run(JOB.waitingDryRun, job)
  else if (states.every((state) => state === TASK.success)) {
    // asked once more, a database answers that it has run it; then comes the schema's own turn
    const first = 'SELECT min(task_id) FROM pending_tasks WHERE job_id = ?'
    database
      .prepare(`UPDATE pending_tasks SET status = ? WHERE task_id = (${first})`)
      .run(TASK.dryRunSuccess, job)
  }
  return 'continued'
}

/** The server ends it in each database that has not run it, and then as a whole. */
function fail(database: DatabaseSync, job: number): void {
  const cause = database
    .prepare('SELECT error FROM pending_tasks WHERE job_id = ? AND error IS NOT NULL LIMIT 1')
    .get(job)
  const error = String(cause?.['error'] ?? INTERRUPTED)
  database.prepare('UPDATE jobs SET error = coalesce(error, ?) WHERE job_id = ?').run(error, job)
  // it waits for ever for those that have run it to fail, too
  database.prepare('DELETE FROM pending_tasks WHERE job_id = ? AND status = ?').run(job, TASK.success)
  const { changes } = database
    .prepare('UPDATE pending_tasks SET status = ? WHERE job_id = ?')
    .run(TASK.dryRunFailure, job)
  if (changes === 0) database.prepare('UPDATE jobs SET status = ? WHERE job_id = ?').run(JOB.runFailure, job)
}
