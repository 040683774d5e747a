import type { DatabaseId } from '@batonsql/server-common/backend'
import type { Job, SchemaStore, Task } from './schema-store.ts'

const CONCURRENT_TASKS = 10
const CLOSED = 'the server was closed; the migration is resumed at the next start'

/** Operations on databases that migrations need. */
export interface MigrationHost {
  /** Runs a migration in a database, or a dry run. @returns its error; null on success. Never rejects. */
  run(id: DatabaseId, job: Job, isDryRun: boolean): Promise<string | null>
  /** Blocks or unblocks writes to a database, except by migrations. */
  block(id: DatabaseId, isBlocked: boolean): void
}

/**
 * Migrates databases that share a schema: a dry run in each child, then the migration in each child, then in the schema database. If a
 * dry run fails, no database is changed. Migrations run one at a time; one that was interrupted by a crash or a shutdown is resumed
 * by `resume`.
 */
export class SchemaMigrations {
  readonly #store: SchemaStore
  readonly #host: MigrationHost
  #lastWork: Promise<unknown> = Promise.resolve()
  /** Schema databases whose migration is queued or running. */
  readonly #migrating = new Set<DatabaseId>()
  #isClosed = false

  constructor(store: SchemaStore, host: MigrationHost) {
    this.#store = store
    this.#host = host
  }

  /** Runs a migration after its dry run in the schema database. @returns its error; null on success */
  async migrate(schema: DatabaseId, program: string): Promise<string | null> {
    if (this.#migrating.has(schema)) return `A migration job is already in progress for \`${schema}\``
    return await this.#enqueueFor(schema, async () => {
      await this.finish(schema)
      return await this.#run(await this.#store.addJob(schema, program))
    })
  }

  /** Resumes interrupted migrations. */
  resume(): void {
    for (const { schema, tasks } of this.#store.unfinished) {
      for (const { database } of tasks) this.#host.block(database, true)
      void this.#enqueueFor(schema, () => this.finish(schema)).catch(() => {})
    }
  }

  /** Finishes a migration that was interrupted, for example because its state could not be saved. To be called in queued work. */
  async finish(schema: DatabaseId): Promise<void> {
    const job = this.#store.findActiveJob(schema)
    if (job !== undefined) await this.#run(job)
  }

  async #enqueueFor<T>(schema: DatabaseId, work: () => Promise<T>): Promise<T> {
    this.#migrating.add(schema)
    return await this.enqueue(work).finally(() => this.#migrating.delete(schema))
  }

  /** Stops without waiting: unfinished migrations are resumed at the next start. */
  close(): void {
    this.#isClosed = true
  }

  /**
   * Runs migrations, and changes to the set of databases that share a schema, one at a time, so that no database is added or removed
   * during a migration.
   */
  async enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#lastWork.then(async () => {
      if (this.#isClosed) throw new Error('the server is closed')
      return await work()
    })
    this.#lastWork = result.catch(() => {})
    return await result
  }

  async #run(job: Job): Promise<string | null> {
    for (const { database } of job.tasks) this.#host.block(database, true)
    try {
      if (job.status === 'WaitingDryRun') await this.#dryRun(job)
      if (job.status === 'DryRunFailure') {
        const reason = `migration dry run failed: ${job.error}`
        await this.#abort(job)
        return reason
      }
      return await this.#apply(job)
    } finally {
      if (!this.#isClosed) for (const { database } of job.tasks) this.#host.block(database, false)
    }
  }

  async #dryRun(job: Job): Promise<void> {
    await this.#forEachTask(job.tasks, async (task) => {
      if (job.error !== null) return // already failed
      const error = await this.#host.run(task.database, job, true)
      if (this.#isClosed) return
      task.status = error === null ? 'DryRunSuccess' : 'DryRunFailure'
      task.error = error
      if (error !== null) job.error ??= failureText(task, error)
    })
    if (this.#isClosed) return
    job.status = job.error === null ? 'WaitingRun' : 'DryRunFailure'
    await this.#store.save().catch((error: unknown) => {
      // repeated when the migration is resumed: the children can be written to until then
      job.status = 'WaitingDryRun'
      throw error
    })
  }

  async #abort(job: Job): Promise<void> {
    for (const task of job.tasks) Object.assign(task, { status: 'RunFailure', error: 'aborted' })
    job.status = 'RunFailure'
    await this.#store.save()
  }

  /** Applies a migration whose dry run succeeded in all databases. Their writes have been blocked since the dry run. */
  async #apply(job: Job): Promise<string | null> {
    job.error = null
    await this.#forEachTask(
      job.tasks.filter(({ status }) => status !== 'RunSuccess'),
      async (task) => {
        const error = await this.#host.run(task.database, job, false)
        // an interrupted migration is resumed at the next start
        if (this.#isClosed) return
        task.status = error === null ? 'RunSuccess' : 'RunFailure'
        task.error = error
        if (error !== null) job.error ??= failureText(task, error)
        await this.#store.save()
      },
    )
    if (this.#isClosed) return CLOSED
    if (job.error === null) {
      const error = await this.#host.run(job.schema, job, false)
      if (error !== null && this.#isClosed) return CLOSED
      if (error !== null) job.error = `the schema database failed after its children: ${error}`
    }
    job.status = job.error === null ? 'RunSuccess' : 'RunFailure'
    await this.#store.save()
    return job.error
  }

  async #forEachTask(tasks: readonly Task[], run: (task: Task) => Promise<void>): Promise<void> {
    let next = 0
    const runRemaining = async (): Promise<void> => {
      for (let task = tasks[next++]; task !== undefined && !this.#isClosed; task = tasks[next++])
        await run(task)
    }
    await Promise.all(Array.from({ length: CONCURRENT_TASKS }, runRemaining))
  }
}

function failureText({ number, database }: Task, error: string): string {
  return `task ${number} for namespace \`${database}\` failed with error: ${error}`
}
