import { mkdir } from 'node:fs/promises'
import http from 'node:http'
import { Readable } from 'node:stream'
import type { DatabaseBackend, DatabaseId, DatabaseSettings } from '../backend.ts'
import { readBytes, type ServiceRequest, type ServiceResponse, textResponse } from '../exchange.ts'
import type { SqldNamespaceConfig } from './admin.ts'
import { BatonBinding } from './baton-binding.ts'
import { type SqldProcess, startSqld } from './process.ts'

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
/** Headers that concern one connection only, and those by which a client could choose another database. */
const NOT_FORWARDED: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'host',
  'content-length',
  'accept-encoding',
  'x-namespace',
  'x-namespace-bin',
  'x-proxy-authorization',
])

/** The database API of a real libsql-server, with a namespace of it for each database. */
export class SqldBackend implements DatabaseBackend {
  readonly kind = 'sqld' as const
  readonly #options: SqldBackendOptions
  readonly #agent = new http.Agent({ keepAlive: true })
  readonly #batons = new BatonBinding()
  #process: SqldProcess | null = null
  #reviving: Promise<unknown> | null = null
  #isClosed = false

  constructor(options: SqldBackendOptions) {
    this.#options = options
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

  async create(id: DatabaseId, settings: DatabaseSettings): Promise<void> {
    await this.#running.admin.create(id, this.#config(settings))
  }

  async applySettings(id: DatabaseId, settings: DatabaseSettings): Promise<void> {
    await this.#running.admin.configure(id, this.#config(settings))
  }

  async remove(id: DatabaseId): Promise<void> {
    await this.#running.admin.remove(id)
  }

  async handle(id: DatabaseId, request: ServiceRequest): Promise<ServiceResponse> {
    await this.#revive()
    const body = await readBytes(request.body)
    if (!this.#batons.allows(id, body)) return textResponse(400, 'text/plain', 'Received an invalid baton')
    const response = await this.#forward(id, request, body)
    // under load the server sometimes denies a database it has; nothing has run then
    const isDenied = response.statusCode === 404 && request.method === 'POST'
    if (isDenied && (await this.#running.admin.exists(id))) {
      response.resume()
      return this.#finish(id, request, await this.#forward(id, request, body))
    }
    return this.#finish(id, request, response)
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
      allow_attach: false,
      block_reads: blockReads,
      block_writes: blockWrites,
      block_reason: blockReason ?? undefined,
    }
  }

  async #finish(
    id: DatabaseId,
    request: ServiceRequest,
    answer: http.IncomingMessage,
  ): Promise<ServiceResponse> {
    const status = answer.statusCode ?? 502
    const headers = forwardable(answer.headers)
    if (status >= 400) return { status, headers, body: (await readBytes(answer)).toString('utf8') }
    const isStream = request.path.endsWith('/pipeline') || request.path.endsWith('/cursor')
    if (!isStream) return { status, headers, body: answer }
    return { status, headers, body: Readable.from(this.#batons.watch(id, answer), { objectMode: false }) }
  }

  #forward(id: DatabaseId, request: ServiceRequest, body: Buffer): Promise<http.IncomingMessage> {
    const headers = {
      ...forwardable(request.headers),
      host: 'localhost',
      'x-namespace-bin': Buffer.from(id).toString('base64').replace(/=+$/, ''),
      ...(request.method === 'POST' && { 'content-length': body.length }),
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
      onward.end(body)
    })
  }
}

function forwardable(headers: ServiceRequest['headers']): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !NOT_FORWARDED.has(name)) kept[name] = value
  }
  return kept
}
