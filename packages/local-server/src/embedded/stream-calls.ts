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
import type { StreamTable } from './stream-table.ts'
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
  readonly stream: number
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
    const stream = await this.#openOrResume(call, body.baton)
    return await this.#closeOnError(stream, async () => {
      const worker = await this.#getWorker(call.id, stream)
      const { requests } = body
      const outcome = await worker.run({ ...call, stream }, { type: 'pipeline', requests, version })
      if (outcome.type === 'failure') return this.#closeAndReport(stream, outcome)
      // without its client, the stream cannot be continued, so it must not keep the write lock
      const isClosed = outcome.isClosed || call.signal.aborted
      if (isClosed) this.#options.streams.close(stream)
      // the worker may not have detected yet that the client has disconnected
      if (isClosed && !outcome.isClosed) worker.closeStream(stream)
      const baton = isClosed ? null : this.#options.streams.release(stream)
      return jsonResponse(concat(`{${responseHead(baton)},"results":`, outcome.text, '}'), worker)
    })
  }

  /** Runs the batch of a cursor; the response begins when the batch has been accepted. @throws NotBegunError */
  async cursor(call: ClientCall, body: CursorBody): Promise<ServiceResponse> {
    const stream = await this.#openOrResume(call, body.baton)
    const lines = new CursorBodyStream(() => `{${responseHead(this.#options.streams.release(stream))}}\n`)
    return await this.#closeOnError(stream, async () => {
      const worker = await this.#getWorker(call.id, stream)
      const cursor = worker.stream({ ...call, stream }, { type: 'cursor', steps: body.steps }, lines)
      return await this.#streamResponse({ call, stream, cursor, lines }, { 'content-type': 'text/plain' })
    })
  }

  /** Dumps a database on a stream of its own. @throws NotBegunError */
  async dump(call: ClientCall, preserveRowIds: boolean): Promise<ServiceResponse> {
    const stream = await this.#options.streams.open(call.id, false)
    const lines = new CursorBodyStream(() => '')
    return await this.#closeOnError(stream, async () => {
      const worker = await this.#getWorker(call.id, stream)
      const dump = worker.stream({ ...call, stream }, { type: 'dump', preserveRowIds }, lines)
      const end = (): void => this.#options.streams.close(stream)
      void dump.outcome.then(end, end)
      return await this.#streamResponse({ call, stream, cursor: dump, lines }, {})
    })
  }

  async #openOrResume(
    { id, permissions: { write, attach }, running }: ClientCall,
    baton: string | null,
  ): Promise<number> {
    const mayAttach = (target: DatabaseId): boolean => this.#options.mayAttach(id, target, attach)
    const { streams } = this.#options
    const stream =
      baton === null ? await streams.open(id, write) : streams.resume(baton, id, write, mayAttach)
    running.attached = streams.getAttached(stream)
    return stream
  }

  /** Runs `work`; if it fails, for example because the database was deleted, closes the stream, which frees its slot. */
  async #closeOnError<T>(stream: number, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      this.#options.streams.close(stream)
      throw error
    }
  }

  /** Responds with the output of a worker as soon as it begins. */
  async #streamResponse(
    { call, stream, cursor, lines }: StreamedResponse,
    headers: ServiceResponse['headers'],
  ): Promise<ServiceResponse> {
    lines.source = cursor
    // the worker finishes after the body does
    const end = (): void => call.running.release()
    call.running.hold()
    void cursor.outcome.then(end, end)
    const firstOutcome = await Promise.race([cursor.outcome, lines.begun])
    if (firstOutcome?.type === 'failure') return this.#closeAndReport(stream, firstOutcome)
    void cursor.outcome.then(
      (outcome) => {
        if (outcome.type !== 'failure') return lines.end()
        this.#options.streams.close(stream)
        lines.abort(outcome.body)
      },
      (error: unknown) => {
        this.#options.streams.close(stream)
        lines.abort(String(error))
      },
    )
    return { status: 200, headers, body: lines.stream }
  }

  #closeAndReport(stream: number, { status, contentType, body }: FailureText): ServiceResponse {
    this.#options.streams.close(stream)
    return textResponse(status, contentType, body)
  }

  /** Returns the worker of a database. @throws PipelineFailure if the stream was closed in the meantime */
  async #getWorker(id: DatabaseId, stream: number): Promise<DatabaseWorker> {
    const worker = await this.#options.workers.get(id)
    if (!this.#options.streams.has(stream)) throw PipelineFailure.invalidBaton()
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
