import { BackendRefusal, type DatabaseId } from '../../backend/backend.ts'
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
  /** Jobs that run or wait for their turn, each with its end. */
  readonly #running = new Map<DatabaseId, Promise<unknown>>()
  #isClosed = false

  constructor(store: SchemaStore, host: MigrationHost) {
    this.#store = store
    this.#host = host
  }

  /** Runs a migration that the schema database has tried out. @returns what went wrong; null when nothing has */
  async migrate(schema: DatabaseId, program: string): Promise<string | null> {
    if (this.#store.activeJobOf(schema)) return `A migration job is already in progress for \`${schema}\``
    if (this.#running.has(schema)) return `A migration job is already in progress for \`${schema}\``
    const done = this.#store.addJob(schema, program).then((job) => this.#enqueue(job))
    return await this.#known(schema, done)
  }

  /** Goes on with what was under way when the process ended. */
  resume(): void {
    for (const job of this.#store.unfinished) {
      for (const { database } of job.tasks) this.#host.block(database, true)
      void this.#known(job.schema, this.#enqueue(job)).catch(() => {})
    }
  }

  /** Waits for nothing: what is under way is gone on with at the next start. */
  close(): void {
    this.#isClosed = true
  }

  /** @throws BackendRefusal while the databases of a schema are being migrated */
  checkNotMigrating(schema: DatabaseId): void {
    if (!this.#store.activeJobOf(schema)) return
    throw new BackendRefusal(
      `cannot create database config while there are pending migration on the shared schema \`${schema}\``,
    )
  }

  /** Waits for the migration that a database takes part in. */
  async whenDone(id: DatabaseId): Promise<void> {
    await this.#running.get(this.#store.parentOf(id) ?? id)?.catch(() => {})
  }

  async #known<T>(schema: DatabaseId, done: Promise<T>): Promise<T> {
    this.#running.set(schema, done)
    try {
      return await done
    } finally {
      if (this.#running.get(schema) === done) this.#running.delete(schema)
    }
  }

  #enqueue(job: Job): Promise<string | null> {
    const done = this.#last.then(() => (this.#isClosed ? 'the server is closed' : this.#run(job)))
    this.#last = done.catch(() => {})
    return done
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
