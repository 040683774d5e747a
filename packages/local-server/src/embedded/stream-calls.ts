import { Readable } from 'node:stream'
import {
  type CallOutcome,
  concat,
  type DatabaseCall,
  type DatabaseWorker,
  type JsonText,
  type RunningCursor,
  toBytes,
} from '@batonsql/embedded-engine'
import type { DatabaseId, RunningRequest } from '@batonsql/server-common/backend'
import {
  type CursorBody,
  type Dialect,
  type Permissions,
  type PipelineBody,
  PipelineFailure,
} from '@batonsql/server-common/hrana'
import { type ServiceResponse, textResponse } from '@batonsql/server-common/http'
import { CursorBodyStream } from './cursor-body-stream.ts'
import type { StreamLease, StreamTable } from './stream-table.ts'
import type { WorkerPool } from './worker-pool.ts'

export interface StreamCallOptions {
  readonly workers: WorkerPool
  readonly streams: StreamTable
  readonly dialect: Dialect | null
  /** Whether a sender with these permissions may attach a database to another one now. */
  readonly mayAttach: (from: DatabaseId, target: DatabaseId, allowed: Permissions['attach']) => boolean
}

/** A call from a client's request, before it has a stream. */
export interface ClientCall extends Omit<DatabaseCall, 'stream'> {
  readonly running: RunningRequest
}

interface StreamedResponse {
  readonly call: ClientCall
  readonly lease: StreamLease
  readonly cursor: RunningCursor
  readonly lines: CursorBodyStream
}

type FailureText = Extract<CallOutcome, { type: 'failure' }>

/** Runs the calls of clients on streams, each in the worker of its database. */
export class StreamCalls {
  readonly #options: StreamCallOptions

  constructor(options: StreamCallOptions) {
    this.#options = options
  }

  /** Runs a pipeline. @throws NotBegunError if it can be retried */
  async pipeline(call: ClientCall, body: PipelineBody, version: 2 | 3): Promise<ServiceResponse> {
    if (this.#options.dialect === 'cloud') checkCloseIsLast(body)
    const lease = await this.#lease(call, body.baton)
    return await this.#closeOnError(lease, async () => {
      const worker = await this.#getWorker(call.id, lease)
      const { requests } = body
      const outcome = await worker.run({ ...call, ...lease }, { type: 'pipeline', requests, version })
      if (outcome.type === 'failure') return this.#closeAndReport(lease, outcome)
      // without its client, the stream cannot be continued, so it must not keep the write lock
      const isClosed = outcome.isClosed || call.signal.aborted
      if (isClosed) this.#options.streams.close(lease)
      // the worker may not have detected yet that the client has disconnected
      if (isClosed && !outcome.isClosed) worker.closeStream(lease.stream)
      const baton = isClosed ? null : this.#options.streams.release(lease)
      return jsonResponse(concat(`{${responseHead(baton)},"results":`, outcome.text, '}'), worker)
    })
  }

  /** Runs the batch of a cursor; the response begins when the batch has been accepted. @throws NotBegunError */
  async cursor(call: ClientCall, body: CursorBody): Promise<ServiceResponse> {
    const lease = await this.#lease(call, body.baton)
    const lines = new CursorBodyStream(() => `{${responseHead(this.#options.streams.release(lease))}}\n`)
    return await this.#closeOnError(lease, async () => {
      const worker = await this.#getWorker(call.id, lease)
      const cursor = worker.stream({ ...call, ...lease }, { type: 'cursor', steps: body.steps }, lines)
      return await this.#streamResponse({ call, lease, cursor, lines }, { 'content-type': 'text/plain' })
    })
  }

  /** Dumps a database on a stream of its own. @throws NotBegunError */
  async dump(call: ClientCall, preserveRowIds: boolean): Promise<ServiceResponse> {
    const lease = await this.#options.streams.open(call.id, false)
    const lines = new CursorBodyStream(() => '')
    return await this.#closeOnError(lease, async () => {
      const worker = await this.#getWorker(call.id, lease)
      const dump = worker.stream({ ...call, ...lease }, { type: 'dump', preserveRowIds }, lines)
      const end = (): void => this.#options.streams.close(lease)
      void dump.outcome.then(end, end)
      return await this.#streamResponse({ call, lease, cursor: dump, lines }, {})
    })
  }

  async #lease(
    { id, permissions: { write, attach }, running }: ClientCall,
    baton: string | null,
  ): Promise<StreamLease> {
    const mayAttach = (target: DatabaseId): boolean => this.#options.mayAttach(id, target, attach)
    const { streams } = this.#options
    const lease = baton === null ? await streams.open(id, write) : streams.resume(baton, id, write, mayAttach)
    running.attached = streams.getAttached(lease)
    return lease
  }

  /** Runs `work`; if it fails, for example because the database was deleted, closes the stream, which frees its slot. */
  async #closeOnError<T>(lease: StreamLease, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      this.#options.streams.close(lease)
      throw error
    }
  }

  /** Responds with the output of a worker as soon as it begins. */
  async #streamResponse(
    { call, lease, cursor, lines }: StreamedResponse,
    headers: ServiceResponse['headers'],
  ): Promise<ServiceResponse> {
    lines.source = cursor
    // the worker finishes after the body does
    const end = (): void => call.running.release()
    call.running.hold()
    void cursor.outcome.then(end, end)
    const firstOutcome = await Promise.race([cursor.outcome, lines.begun])
    if (firstOutcome?.type === 'failure') return this.#closeAndReport(lease, firstOutcome)
    void cursor.outcome.then(
      (outcome) => {
        if (outcome.type !== 'failure') return lines.end()
        this.#options.streams.close(lease)
        lines.abort(outcome.body)
      },
      (error: unknown) => {
        this.#options.streams.close(lease)
        lines.abort(String(error))
      },
    )
    return { status: 200, headers, body: lines.stream }
  }

  #closeAndReport(lease: StreamLease, { status, contentType, body }: FailureText): ServiceResponse {
    this.#options.streams.close(lease)
    return textResponse(status, contentType, body)
  }

  /** Returns the worker of a database. @throws PipelineFailure if the stream was closed in the meantime */
  async #getWorker(id: DatabaseId, lease: StreamLease): Promise<DatabaseWorker> {
    const worker = await this.#options.workers.get(id)
    if (!this.#options.streams.has(lease)) throw PipelineFailure.invalidBaton()
    return worker
  }
}

function jsonResponse(text: JsonText, worker: DatabaseWorker): ServiceResponse {
  if (typeof text === 'string') return textResponse(200, 'application/json', text)
  const pieces = toBytes(text)
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
  const headers = { 'content-type': 'application/json', 'content-length': String(bytes) }
  return { status: 200, headers, body: Readable.from(pieces), recycle: () => worker.recycle(text) }
}

/** Checks that no request follows `close`. @throws PipelineFailure */
function checkCloseIsLast({ requests }: PipelineBody): void {
  if (requests.slice(0, -1).some(({ type }) => type === 'close'))
    throw PipelineFailure.service(400, 'close must be the last request of a pipeline')
}

function responseHead(baton: string | null): string {
  return `"baton":${JSON.stringify(baton)},"base_url":null`
}
