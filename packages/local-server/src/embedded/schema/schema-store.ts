import { open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { DatabaseId, SchemaRole } from '@batonsql/server-common/backend'
import { syncFolder } from '@batonsql/server-common/base'

/** States of a job, also used for its tasks. */
type JobStatus =
  | 'WaitingDryRun'
  | 'DryRunSuccess'
  | 'DryRunFailure'
  | 'WaitingRun'
  | 'RunSuccess'
  | 'RunFailure'

/** The part of a migration for one child. */
export interface Task {
  readonly number: number
  readonly database: DatabaseId
  status: JobStatus
  error: string | null
}

/** A migration of a schema database and its children. */
export interface Job {
  readonly number: number
  readonly schema: DatabaseId
  /** A `MigrationProgram` as text. */
  readonly program: string
  tasks: readonly Task[]
  status: JobStatus
  error: string | null
}

interface State {
  schemas: readonly DatabaseId[]
  /** The schema database of each child. */
  readonly parents: Record<DatabaseId, DatabaseId>
  jobs: readonly Job[]
  lastTask: number
  lastJob: number
}

const FINAL_STATUSES: ReadonlySet<JobStatus> = new Set(['RunSuccess', 'RunFailure'])
/** Maximum number of ended jobs that are kept, of all schema databases. */
const MAX_JOBS = 1_000

/**
 * Stores which databases share a schema, and their migrations, in one file. Every change replaces the whole file, so that a crash
 * leaves either the old or the new one. A change that was acknowledged is on disk.
 */
export class SchemaStore {
  readonly #directory: string
  #state: State = { schemas: [], parents: {}, jobs: [], lastTask: 0, lastJob: 0 }
  #saving: Promise<void> = Promise.resolve()

  /** @param directory an existing directory */
  constructor(directory: string) {
    this.#directory = directory
  }

  /** Reads the file, if it exists. @throws Error if it cannot be read, or is malformed */
  async load(): Promise<void> {
    const path = storePath(this.#directory)
    try {
      this.#state = JSON.parse(await readFile(path, 'utf8')) as State
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
        throw new Error(`${path} cannot be read`, { cause: error })
    }
  }

  getRole(id: DatabaseId): SchemaRole {
    if (this.#state.schemas.includes(id)) return 'schema'
    return Object.hasOwn(this.#state.parents, id) ? 'child' : 'plain'
  }

  getChildren(schema: DatabaseId): readonly DatabaseId[] {
    const children = Object.keys(this.#state.parents) as DatabaseId[]
    return children.filter((child) => this.#state.parents[child] === schema)
  }

  /** Returns the jobs of a schema database, newest first. */
  getJobs(schema: DatabaseId): readonly Job[] {
    return this.#state.jobs.filter((job) => job.schema === schema).toReversed()
  }

  /** Returns the jobs that have not ended, oldest first. */
  get unfinished(): readonly Job[] {
    return this.#state.jobs.filter(isUnfinished)
  }

  /** Returns the unfinished job of a schema database. */
  findActiveJob(schema: DatabaseId): Job | undefined {
    return this.#state.jobs.find((job) => job.schema === schema && isUnfinished(job))
  }

  async addSchema(id: DatabaseId): Promise<void> {
    this.#state.schemas = [...this.#state.schemas, id]
    await this.save()
  }

  async addChild(id: DatabaseId, parent: DatabaseId): Promise<void> {
    this.#state.parents[id] = parent
    await this.save()
  }

  async remove(id: DatabaseId): Promise<void> {
    if (this.getRole(id) === 'plain') return
    const state = this.#state
    state.schemas = state.schemas.filter((schema) => schema !== id)
    delete state.parents[id]
    state.jobs = state.jobs.filter(({ schema }) => schema !== id)
    // removes the tasks of unfinished jobs for this database
    for (const job of this.unfinished) job.tasks = job.tasks.filter(({ database }) => database !== id)
    await this.save()
  }

  async addJob(schema: DatabaseId, program: string): Promise<Job> {
    const state = this.#state
    const tasks = this.getChildren(schema).map((database): Task => {
      state.lastTask += 1
      return { number: state.lastTask, database, status: 'WaitingDryRun', error: null }
    })
    state.lastJob += 1
    const job: Job = { number: state.lastJob, schema, program, tasks, status: 'WaitingDryRun', error: null }
    const endedJobs = state.jobs.filter((other) => !isUnfinished(other))
    const discarded = new Set(endedJobs.slice(0, Math.max(0, endedJobs.length - MAX_JOBS)))
    state.jobs = [...state.jobs.filter((other) => !discarded.has(other)), job]
    try {
      await this.save()
    } catch (error) {
      state.jobs = state.jobs.filter((other) => other !== job)
      throw error
    }
    return job
  }

  /** Must be called after a job or a task has changed. Saves run one at a time; each writes the state at the time it begins. */
  save(): Promise<void> {
    this.#saving = this.#saving
      .catch(() => {}) // reported to its caller
      .then(async () => {
        const scratch = `${storePath(this.#directory)}.new`
        const file = await open(scratch, 'w')
        try {
          await file.writeFile(`${JSON.stringify(this.#state, null, 2)}\n`)
          await file.sync()
        } finally {
          await file.close()
        }
        await rename(scratch, storePath(this.#directory))
        syncFolder(this.#directory)
      })
    return this.#saving
  }
}

const isUnfinished = ({ status }: Job): boolean => !FINAL_STATUSES.has(status)
const storePath = (directory: string): string => join(directory, 'shared-schemas.json')
