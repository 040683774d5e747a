import { CALL_OPTIONS, type Condition, checkOption, checkOptions, TIME } from '@batonsql/options'
import { asNotApplied, ProtocolError, SqlError, toProtocolError } from '../base/errors.ts'
import { type Client, getHttp } from '../client/client.ts'
import type { Http } from '../http/http.ts'
import type { CallOptions } from '../options.ts'
import { timeoutError } from '../transport/failure.ts'
import { get } from './get.ts'

/** Status of a job. `RunSuccess` and `RunFailure` are final. */
export type JobStatus =
  | 'WaitingDryRun'
  | 'DryRunSuccess'
  | 'DryRunFailure'
  | 'WaitingRun'
  | 'RunSuccess'
  | 'RunFailure'
  | (string & {})

/** Status of a job's task in one database. If a server uses the names of job statuses, they are translated. */
export type TaskStatus =
  | 'Enqueued'
  | 'DryRunSuccess'
  | 'DryRunFailure'
  | 'Run'
  | 'Success'
  | 'Failure'
  | (string & {})

/** Jobs of a schema database. */
export interface JobList {
  /** A counter that the server keeps; not the id of a job. */
  readonly schemaVersion: number
  /** Newest first. `status` is null if the server does not report it. */
  readonly jobs: readonly { readonly id: number; readonly status: JobStatus | null }[]
}

/** A migration: a change to a schema database that is applied to its children. */
export interface Job {
  readonly id: number
  readonly status: JobStatus
  /** Reason of the failure; null otherwise. */
  readonly error: string | null
  /** One entry for each child. Its `error` is often only "aborted"; the job's `error` gives the reason. */
  readonly progress: readonly {
    readonly database: string
    readonly status: TaskStatus | null
    readonly error: string | null
  }[]
}

/** Settings of `jobs.wait`. */
export interface WaitForJobOptions extends CallOptions {
  /** Called with the job after each poll. */
  readonly onProgress?: ((job: Job) => void) | undefined
  /** Time between two polls in ms. @default 500 */
  readonly pollMs?: number | undefined
}

const TASK_STATUS: Readonly<Record<string, TaskStatus>> = {
  WaitingDryRun: 'Enqueued',
  WaitingRun: 'Run',
  RunSuccess: 'Success',
  RunFailure: 'Failure',
}

/** Migrations of a multi-database schema, read from the schema database. Throws HttpError 400 for any other database. */
export const jobs = {
  /** Returns all jobs, newest first. */
  async list(db: Client, options?: CallOptions): Promise<JobList> {
    return read(await get(getHttp(db), '/v1/jobs', options), ({ schema_version: version, migrations }) => ({
      schemaVersion: version as number,
      jobs: (migrations as readonly WireJob[]).map((job) => ({
        id: readJobId(job),
        status: job.status ?? null,
      })),
    }))
  },

  /** Returns a job with its progress. @throws HttpError 404 if it does not exist */
  async get(db: Client, id: number, options?: CallOptions): Promise<Job> {
    return await getJob(getHttp(db), id, options)
  },

  /**
   * Waits until a job has finished. `timeoutMs` limits the whole wait; by default there is no limit.
   * @throws SqlError `SCHEMA_MIGRATION_ERROR` with the job's error if it failed; its outcome is `unknown`
   */
  async wait(db: Client, id: number, options: WaitForJobOptions = {}): Promise<Job> {
    checkOptions(options, { ...CALL_OPTIONS, onProgress: 'function', pollMs: TIME })
    const { signal, timeoutMs = Infinity, pollMs = 500, onProgress } = options
    const http = getHttp(db)
    const deadline = http.deadline(timeoutMs)
    const createTimeoutError = (): Error => timeoutError(timeoutMs, http.config.address.origin, false)
    http.lifetime.begin()
    try {
      for (;;) {
        if (deadline.remainingMs <= 0) throw createTimeoutError()
        const limitMs = Math.ceil(Math.min(deadline.remainingMs, http.config.requestTimeoutMs))
        const job = await getJob(http, id, { signal, timeoutMs: limitMs }, true)
        onProgress?.(job)
        if (job.status === 'RunSuccess') return job
        if (job.status === 'RunFailure')
          throw new SqlError(
            { message: job.error ?? `job ${id} failed`, code: 'SCHEMA_MIGRATION_ERROR' },
            null,
            null,
            [],
            // whatever the message says: some of the databases may have it
            'unknown',
          )
        await http.lifetime.sleep(Math.min(pollMs, deadline.remainingMs), signal)
      }
    } finally {
      http.lifetime.end()
    }
  },
}

const JOB_ID: Condition = {
  text: 'a whole number',
  accepts: (id) => Number.isSafeInteger(id) && (id as number) >= 0,
}

async function getJob(http: Http, id: number, options?: CallOptions, isContinuation = false): Promise<Job> {
  checkOption('the id of a job', id, JOB_ID)
  return read(await get(http, `/v1/jobs/${id}`, options, isContinuation), (job) => ({
    id: readJobId(job as unknown as WireJob),
    status: readStatus(job['status']),
    error: (job['error'] as string | null | undefined) ?? null,
    progress: ((job['progress'] ?? []) as readonly WireTask[]).map(({ namespace, status, error }) => ({
      database: namespace,
      status: status == null ? null : (TASK_STATUS[status] ?? status),
      error: error ?? null,
    })),
  }))
}

interface WireJob {
  readonly job_id: number
  readonly status?: string | null
}

interface WireTask {
  readonly namespace: string
  readonly status?: string | null
  readonly error?: string | null
}

function read<T>(text: string, decode: (body: Readonly<Record<string, unknown>>) => T): T {
  try {
    return decode(JSON.parse(text) as Readonly<Record<string, unknown>>)
  } catch (error) {
    throw asNotApplied(toProtocolError(error))
  }
}

function readJobId({ job_id: id }: WireJob): number {
  if (typeof id !== 'number') throw new ProtocolError('a job has no numeric id')
  return id
}

function readStatus(status: unknown): string {
  if (typeof status !== 'string') throw new ProtocolError('a job has no status')
  return status
}
