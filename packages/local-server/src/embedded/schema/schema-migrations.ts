import type { DatabaseId } from '../../backend/backend.ts'
import type { Job, SchemaStore, Task } from './schema-store.ts'

/** Tasks of a job that run side by side. */
const TASKS_AT_ONCE = 10

/** What migrations need of the databases. */
export interface MigrationHost {
  /** Runs a migration in a database, or tries it out. @returns what went wrong; null when nothing has. Never rejects. */
  run(id: DatabaseId, job: Job, isDryRun: boolean): Promise<string | null>
  /** Keeps everybody else from writing to a database, or no longer. */
  block(id: DatabaseId, isBlocked: boolean): void
}

/**
 * Migrates databases that share a schema: a try in each child, then the migration in each child, then in the schema database
 * itself. Where the try fails in one of them, nothing is changed in any. One migration runs at a time; one that was
 * interrupted by the end of the process is gone on with by `resume`.
 */
export class SchemaMigrations {
  readonly #store: SchemaStore
  readonly #host: MigrationHost
  #last: Promise<unknown> = Promise.resolve()
  /** Schema databases with a migration that waits for its turn. */
  readonly #waiting = new Set<DatabaseId>()
  #isClosed = false

  constructor(store: SchemaStore, host: MigrationHost) {
    this.#store = store
    this.#host = host
  }

  /** Runs a migration that the schema database has tried out. @returns what went wrong; null when nothing has */
  async migrate(schema: DatabaseId, program: string): Promise<string | null> {
    if (this.#waiting.has(schema) || this.#store.activeJobOf(schema))
      return `A migration job is already in progress for \`${schema}\``
    this.#waiting.add(schema)
    return await this.inTurn(async () => {
      this.#waiting.delete(schema)
      return await this.#run(await this.#store.addJob(schema, program))
    })
  }

  /** Goes on with what was under way when the process ended. */
  resume(): void {
    for (const job of this.#store.unfinished) {
      for (const { database } of job.tasks) this.#host.block(database, true)
      void this.inTurn(() => this.#run(job)).catch(() => {})
    }
  }

  /** Waits for nothing: what is under way is gone on with at the next start. */
  close(): void {
    this.#isClosed = true
  }

  /**
   * Migrations, and what changes which databases share a schema, one after the other: no database joins or leaves while the
   * others migrate, and none misses a migration.
   */
  async inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(async () => {
      if (this.#isClosed) throw new Error('the server is closed')
      return await work()
    })
    this.#last = done.catch(() => {})
    return await done
  }

  async #run(job: Job): Promise<string | null> {
    for (const { database } of job.tasks) this.#host.block(database, true)
    try {
      if (job.status === 'WaitingDryRun') await this.#tryOut(job)
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

  async #tryOut(job: Job): Promise<void> {
    const waiting = job.tasks.filter(({ status }) => status === 'WaitingDryRun')
    await this.#each(waiting, async (task) => {
      if (job.error !== null) return // there is nothing to be won any more
      const error = await this.#host.run(task.database, job, true)
      if (this.#isClosed) return
      task.status = error === null ? 'DryRunSuccess' : 'DryRunFailure'
      task.error = error
      if (error !== null) job.error ??= failureText(task, error)
    })
    if (this.#isClosed) return
    job.status = job.error === null ? 'WaitingRun' : 'DryRunFailure'
    await this.#store.save()
  }

  async #abort(job: Job): Promise<void> {
    for (const task of job.tasks) Object.assign(task, { status: 'RunFailure', error: 'aborted' })
    job.status = 'RunFailure'
    await this.#store.save()
  }

  /** What all databases could do when they were tried, and that were blocked for writes since. */
  async #apply(job: Job): Promise<string | null> {
    job.error = null
    await this.#each(
      job.tasks.filter(({ status }) => status !== 'RunSuccess'),
      async (task) => {
        const error = await this.#host.run(task.database, job, false)
        // what ends with the server is gone on with at its next start
        if (this.#isClosed) return
        task.status = error === null ? 'RunSuccess' : 'RunFailure'
        task.error = error
        if (error !== null) job.error ??= failureText(task, error)
        await this.#store.save()
      },
    )
    if (this.#isClosed) return 'the server was closed; the migration goes on at its next start'
    job.error ??= await this.#host.run(job.schema, job, false)
    job.status = job.error === null ? 'RunSuccess' : 'RunFailure'
    await this.#store.save()
    return job.error
  }

  async #each(tasks: readonly Task[], act: (task: Task) => Promise<void>): Promise<void> {
    let next = 0
    const lane = async (): Promise<void> => {
      for (let task = tasks[next++]; task !== undefined && !this.#isClosed; task = tasks[next++])
        await act(task)
    }
    await Promise.all(Array.from({ length: TASKS_AT_ONCE }, lane))
  }
}

function failureText({ number, database }: Task, error: string): string {
  return `task ${number} for namespace \`${database}\` failed with error: ${error}`
}
