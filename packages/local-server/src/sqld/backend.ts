import { mkdir } from 'node:fs/promises'
import http from 'node:http'
import { Readable } from 'node:stream'
import type { DatabaseBackend, DatabaseId, DatabaseSettings } from '../backend.ts'
import { JsonShapeError } from '../embedded/json-shape.ts'
import { PipelineFailure } from '../embedded/protocol/pipeline-failure.ts'
import { decodeCursorBody, decodePipelineBody, readText } from '../embedded/request-decoder.ts'
import { bearerToken, TokenCheck } from '../embedded/token-check.ts'
import { readBytes, type ServiceRequest, type ServiceResponse, textResponse } from '../exchange.ts'
import type { SqldNamespaceConfig } from './admin.ts'
import { BatonBinding } from './baton-binding.ts'
import { awaitFirstEntry, BrokenOffError } from './cursor-start.ts'
import { type SqldProcess, startSqld } from './process.ts'
import { encodeCursorBody, encodePipelineBody } from './request-encoder.ts'
import { guardRequests, guardSteps } from './request-guard.ts'

/** How the back end is made. */
export interface SqldBackendOptions {
  /** Where the server keeps its data. */
  readonly directory: string
  /** Key that tokens are checked with; null leaves the databases open to everybody. */
  readonly publicKeyPem: string | null
  /** The program; undefined to look for it. */
  readonly sqldPath: string | undefined
}

/** As good as no limit; the server takes null for "as before". */
const NO_SIZE_LIMIT = '1000pb'
/** What a client may learn from the server's own headers. */
const ANSWER_HEADERS = ['content-type', 'cache-control', 'server-timing'] as const

/** The database API of a real libsql-server, with a namespace of it for each database. */
export class SqldBackend implements DatabaseBackend {
  readonly kind = 'sqld' as const
  readonly #options: SqldBackendOptions
  readonly #agent = new http.Agent({ keepAlive: true })
  readonly #batons = new BatonBinding()
  readonly #tokens: TokenCheck
  #process: SqldProcess | null = null
  #reviving: Promise<unknown> | null = null
  #isClosed = false

  constructor(options: SqldBackendOptions) {
    this.#options = options
    this.#tokens = new TokenCheck(options.publicKeyPem)
  }

  async start(): Promise<string> {
    const { directory, publicKeyPem, sqldPath } = this.#options
    await mkdir(directory, { recursive: true })
    this.#process = await startSqld({
      dataDirectory: directory,
      namespaces: true,
      ...(sqldPath !== undefined && { sqldPath }),
      ...(publicKeyPem !== null && { publicKeyPem }),
    })
    return this.#process.version
  }

  resume(): void {}

  async create(id: DatabaseId, settings: DatabaseSettings): Promise<void> {
    await this.#running.admin.create(id, this.#config(settings))
  }

  async createFromFile(): Promise<void> {
    throw new TypeError('a database is made from an SQLite file by the back end "embedded" only')
  }

  async exportTo(): Promise<void> {
    throw new TypeError('a database is exported by the back end "embedded" only; libsql-server has /dump')
  }

  async applySettings(id: DatabaseId, settings: DatabaseSettings): Promise<void> {
    await this.#running.admin.configure(id, this.#config(settings))
  }

  async remove(id: DatabaseId): Promise<void> {
    await this.#running.admin.remove(id)
  }

  async handle(id: DatabaseId, request: ServiceRequest): Promise<ServiceResponse> {
    try {
      const { write: mayWrite } = this.#tokens.permissionsOf(request, id)
      await this.#revive()
      if (request.method !== 'POST') return await this.#readOnly(id, request)
      return await this.#onStream({ id, request, mayWrite })
    } catch (error) {
      if (error instanceof JsonShapeError) return textResponse(400, 'text/plain', error.message)
      if (error instanceof PipelineFailure) return textResponse(error.status, error.contentType, error.body)
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    this.#agent.destroy()
    await this.#process?.close()
  }

  /** Starts the server again when it has gone away by itself. */
  async #revive(): Promise<void> {
    const dead = this.#process
    if (dead === null || dead.isRunning || this.#isClosed) return
    this.#reviving ??= dead
      .close()
      .then(() => this.start())
      .finally(() => {
        this.#reviving = null
      })
    await this.#reviving
  }

  get #running(): SqldProcess {
    if (this.#process?.isRunning !== true) throw new Error('libsql-server is not running')
    return this.#process
  }

  #config(settings: DatabaseSettings): SqldNamespaceConfig {
    const { sizeLimitBytes, blockReads, blockWrites, blockReason } = settings
    return {
      // left out, the key of the whole server holds; the same one for all
      jwt_key: undefined,
      max_db_size: sizeLimitBytes === null ? NO_SIZE_LIMIT : String(sizeLimitBytes),
      allow_attach: settings.allowAttach,
      block_reads: blockReads,
      block_writes: blockWrites,
      block_reason: blockReason ?? undefined,
    }
  }

  /** Routes without a body. */
  async #readOnly(id: DatabaseId, request: ServiceRequest): Promise<ServiceResponse> {
    const answer = await this.#forward(id, request, null)
    return await finish(answer, answer)
  }

  async #onStream({ id, request, mayWrite }: StreamCall): Promise<ServiceResponse> {
    const { baton, text } = rebuildBody(request.path, await readText(request.body), mayWrite)
    if (baton !== null && !this.#batons.allows(baton, id, mayWrite)) {
      throw PipelineFailure.protocol('Received an invalid baton')
    }
    const body = Buffer.from(text)
    if (request.path === '/v3/cursor' && !mayWrite) return await this.#readersCursor(id, request, body)
    const answer = await this.#forwardTwice(id, request, body)
    return await finish(answer, this.#watched(answer, id, mayWrite))
  }

  /** The server finds out that a reader may not run a batch when it has answered already, and breaks off. */
  async #readersCursor(id: DatabaseId, request: ServiceRequest, body: Buffer): Promise<ServiceResponse> {
    try {
      const answer = await this.#forwardTwice(id, request, body)
      const entries = answer.statusCode === 200 ? await awaitFirstEntry(answer) : answer
      return await finish(answer, this.#watched(entries, id, false))
    } catch (error) {
      const isBrokenOff =
        error instanceof BrokenOffError || (error as NodeJS.ErrnoException).code === 'ECONNRESET'
      if (!isBrokenOff || request.signal.aborted || this.#process?.isRunning !== true) throw error
      if (error instanceof BrokenOffError && error.baton !== null)
        await this.#closeStream(id, request, error.baton)
      throw PipelineFailure.service(403, noWriteRight(id))
    }
  }

  /** The server keeps the stream of a cursor that it has broken off; there are not many. */
  async #closeStream(id: DatabaseId, request: ServiceRequest, baton: string): Promise<void> {
    const body = Buffer.from(encodePipelineBody({ baton, requests: [{ type: 'close' }] }))
    const answer = await this.#forward(id, { ...request, path: '/v3/pipeline', query: '' }, body)
    answer.resume()
  }

  #watched(answer: Readable, id: DatabaseId, mayWrite: boolean): Readable {
    return Readable.from(this.#batons.watch(answer, id, mayWrite), { objectMode: false })
  }

  /** Under load the server sometimes denies a database it has; nothing has run then. */
  async #forwardTwice(id: DatabaseId, request: ServiceRequest, body: Buffer): Promise<http.IncomingMessage> {
    const answer = await this.#forward(id, request, body)
    if (answer.statusCode !== 404 || !(await this.#running.admin.exists(id))) return answer
    answer.resume()
    return await this.#forward(id, request, body)
  }

  /** One request to the server, made of what was understood of the client's; nothing of it is passed on as it came. */
  #forward(id: DatabaseId, request: ServiceRequest, body: Buffer | null): Promise<http.IncomingMessage> {
    const headers = {
      host: 'localhost',
      'x-namespace-bin': Buffer.from(id).toString('base64').replace(/=+$/, ''),
      ...(this.#options.publicKeyPem !== null && { authorization: `Bearer ${bearerToken(request)}` }),
      ...(body !== null && { 'content-length': body.length }),
    }
    const { method, path, query, signal } = request
    return new Promise((resolve, reject) => {
      const target = {
        host: '127.0.0.1',
        port: this.#running.port,
        agent: this.#agent,
        method,
        path: path + query,
        headers,
      }
      const onward = http.request({ ...target, signal }, resolve)
      onward.on('error', reject)
      onward.end(body ?? undefined)
    })
  }
}

interface StreamCall {
  readonly id: DatabaseId
  readonly request: ServiceRequest
  readonly mayWrite: boolean
}

/** Reads a body strictly and writes it anew: the server's reader takes more than one form for the same thing. */
function rebuildBody(path: string, text: string, mayWrite: boolean): { baton: string | null; text: string } {
  if (path === '/v3/cursor') {
    const body = decodeCursorBody(text)
    const guarded = { ...body, steps: guardSteps(body.steps, mayWrite) }
    return { baton: body.baton, text: encodeCursorBody(guarded) }
  }
  const body = decodePipelineBody(text)
  const guarded = { ...body, requests: guardRequests(body.requests, mayWrite) }
  return { baton: body.baton, text: encodePipelineBody(guarded) }
}

function noWriteRight(id: DatabaseId): string {
  return `Authorization forbidden: Current session doesn't not have Write permission to namespace ${id}`
}

async function finish(answer: http.IncomingMessage, body: Readable): Promise<ServiceResponse> {
  const status = answer.statusCode ?? 502
  const headers: Record<string, string> = {}
  for (const name of ANSWER_HEADERS) {
    const value = answer.headers[name]
    if (value !== undefined) headers[name] = String(value)
  }
  if (status >= 400) return { status, headers, body: (await readBytes(answer)).toString('utf8') }
  return { status, headers, body }
}
