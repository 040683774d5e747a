import { mkdir, rm } from 'node:fs/promises'
import http from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KeyPair } from '@batonsql/server-common/auth'
import type { DatabaseId, RemoteSqldOptions } from '@batonsql/server-common/backend'
import { findFreePort } from '@batonsql/server-common/base'
import type { ServiceRequest } from '@batonsql/server-common/http'
import type { Pool } from 'undici'
import { createReplicationKeys, keyArguments, type ReplicationKeys } from '../replicas/replication-keys.ts'
import { isStopping, type SqldAdmin } from './admin.ts'
import { connectSqld, type SqldTarget } from './connect-sqld.ts'
import {
  discard,
  exchange,
  type HasEnough,
  TruncatedResponseError,
  type UpstreamResponse,
} from './exchange.ts'
import { SqldChild, startSqldChild } from './process.ts'
import { isPortTaken } from './spawn-sqld.ts'
import {
  buildNamespaceHeader,
  type DatabaseHeaders,
  type SenderPermissions,
  UpstreamTokens,
} from './upstream-tokens.ts'

export interface UpstreamOptions {
  /** Data directory of the server. */
  readonly directory: string
  /** Whether everyone has full access without a token. */
  readonly isOpen: boolean
  /** Signs tokens for the server. */
  readonly controlKey: KeyPair
  /** Path of the program; undefined to search for it. */
  readonly sqldPath: string | undefined
  /** A running server to use instead of starting one. */
  readonly remote: RemoteSqldOptions | undefined
  /** The primary that the server replicates; undefined if it is a primary. */
  readonly primary?: {
    readonly grpcUrl: string
    readonly keys: ReplicationKeys
    readonly exists: (id: DatabaseId) => Promise<boolean>
  }
  /** Whether replicas may connect to the server from its start. @default false */
  readonly servesReplicas?: boolean
}

export interface UpstreamCallbacks {
  /** Called when the server has started, including after an unexpected exit. */
  readonly onStart: () => void
  /** Returns the databases that can be attached now, of those that a sender may attach. */
  readonly filterAttachable: (to: DatabaseId, allowed: SenderPermissions['attach']) => readonly string[]
}

/** An authorized request from a client. */
export interface UpstreamRequest {
  readonly id: DatabaseId
  /** The parts of the client's request from which the request to the server is built. */
  readonly request: Pick<ServiceRequest, 'method' | 'path' | 'query'>
  readonly permissions: SenderPermissions
  readonly signal?: AbortSignal
  /** Whether its response can be returned yet. By default, once its headers have arrived. */
  readonly hasEnough?: HasEnough
}

/**
 * Maximum number of attempts to reach a server that has just exited, or to use a database that it reports as missing, and the delay
 * between them. The server briefly reports an existing database as missing while reloading it after a configuration change, and if
 * more databases are in use than it keeps open.
 */
const MAX_ATTEMPTS = 100
const RETRY_DELAY_MS = 20
/** Maximum number of attempts of a call to the admin API that the server received, but did not complete because it stopped. */
const MAX_ADMIN_ATTEMPTS = 5
/** Delay before a call to the admin API is repeated while the server is stopping, which takes up to 2 s. */
const STOPPING_DELAY_MS = 1_000
/** Maximum number of restarts for one request. */
const MAX_RESTARTS = 10
/** Maximum number of ports that are tried for replicas. */
const GRPC_ATTEMPTS = 3
/** Error codes of connections that were closed because the server exited. */
const CONNECTION_ERROR_CODES: ReadonlySet<string | undefined> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'UND_ERR_SOCKET',
  // the replica was removed
  'UND_ERR_DESTROYED',
  'UND_ERR_CLOSED',
])
/** No limits, because clients limit the number and the duration of their requests. Undici closes idle connections after 4 s. */
const POOL_OPTIONS = { allowH2: false, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 } as const
/** With this interval of 31 years, the server runs no checkpoints until it stops, not even after a COMMIT. */
const NO_CHECKPOINTS = ['--checkpoint-interval-s', '1000000000']

/** Sends requests to one libsql-server, and restarts it when it has exited unexpectedly. */
export class Upstream {
  readonly #options: UpstreamOptions
  readonly #callbacks: UpstreamCallbacks
  readonly #tokens: UpstreamTokens
  #process: SqldTarget | null = null
  #pool: Pool | null = null
  /** The server, if it was started here. */
  #localProcess: SqldChild | null = null
  #restarting: Promise<unknown> | null = null
  #restartCount = 0
  #isClosed = false
  #isExitReported = false
  #servesReplicas: boolean
  #grpcPort: number | null = null
  /** Why the running server was started without its port for replicas; null if it was not asked for one, or has one. */
  #grpcFailure: unknown = null
  #keys: Promise<ReplicationKeys> | null = null

  constructor(options: UpstreamOptions, callbacks: UpstreamCallbacks) {
    this.#options = options
    this.#servesReplicas = options.servesReplicas ?? false
    this.#callbacks = callbacks
    this.#tokens = new UpstreamTokens(options.controlKey)
  }

  /** @returns the version that the program reports */
  async start(): Promise<string> {
    const { remote } = this.#options
    this.#process = remote === undefined ? await this.#startServer() : await connectSqld(remote)
    // closes the pool of a server that has exited; this rejects if the back end was closed meanwhile
    this.#pool?.close().catch(() => {})
    const Pool = await importPool()
    this.#pool = new Pool(this.#process.url, POOL_OPTIONS)
    this.#callbacks.onStart()
    return this.#process.version
  }

  async #startServer(): Promise<SqldTarget> {
    const { directory, controlKey, sqldPath, primary } = this.#options
    await mkdir(directory, { recursive: true })
    // a replica receives all data again; old data may include databases that were removed
    if (primary !== undefined) await rm(join(directory, 'sqld'), { recursive: true, force: true })
    const run = async (serverArguments: readonly string[]): Promise<SqldTarget> => {
      const serverOptions = {
        dataDirectory: directory,
        namespaces: true,
        ...(sqldPath !== undefined && { sqldPath }),
        publicKeyPem: controlKey.publicPem,
        serverArguments,
      }
      this.#localProcess = await startSqldChild(serverOptions, this.#localProcess)
      return this.#localProcess
    }
    if (primary !== undefined)
      return await run([
        '--primary-grpc-url',
        primary.grpcUrl,
        ...keyArguments('--primary-grpc', primary.keys.folder),
      ])
    this.#grpcFailure = null
    for (let attempt = 1; this.#servesReplicas && attempt <= GRPC_ATTEMPTS; attempt += 1) {
      try {
        const child = await run([...NO_CHECKPOINTS, ...(await this.#buildGrpcArguments())])
        this.#grpcFailure = null
        return child
      } catch (error) {
        // the databases must be available even if replicas cannot be
        this.#grpcFailure = error
        this.#grpcPort = null
        if (!isPortTaken(error)) break
      }
    }
    return await run(NO_CHECKPOINTS)
  }

  async #buildGrpcArguments(): Promise<readonly string[]> {
    this.#grpcPort = await findFreePort()
    const { folder } = await this.replicationKeys()
    return ['--grpc-listen-addr', `127.0.0.1:${this.#grpcPort}`, ...keyArguments('--grpc', folder)]
  }

  replicationKeys(): Promise<ReplicationKeys> {
    const folder = join(this.#options.directory, 'replication-keys')
    this.#keys ??= createReplicationKeys(folder).catch((error: unknown) => {
      this.#keys = null // retried by the next call
      throw error
    })
    return this.#keys
  }

  /**
   * Returns the port for replicas. A server that was started without one is restarted, but only once if it cannot open one: a
   * restart aborts the requests of all its databases.
   */
  async grpcPort(): Promise<number> {
    this.#servesReplicas = true
    await this.ensureRunning()
    if (this.#grpcPort === null && this.#grpcFailure === null) await this.restart()
    if (this.#grpcFailure !== null) throw this.#grpcFailure
    if (this.#grpcPort === null) throw new Error('a libsql-server given by URL has no port for replicas')
    return this.#grpcPort
  }

  async exists(id: DatabaseId): Promise<boolean> {
    const { primary } = this.#options
    return await (primary === undefined ? this.withAdmin((admin) => admin.exists(id)) : primary.exists(id))
  }

  get isRunning(): boolean {
    return this.#process?.isRunning === true
  }

  /** Whether requests can be sent at once. */
  get isReady(): boolean {
    return this.isRunning && this.#restarting === null
  }

  /** Whether the server has exited unexpectedly; returns true only once for each exit. */
  detectExit(): boolean {
    const wasReported = this.#isExitReported
    this.#isExitReported = this.#process?.isRunning === false && this.#restarting === null
    return this.#isExitReported && !wasReported
  }

  async responds(withinMs: number): Promise<boolean> {
    const { host, port } = await this.ensureRunning()
    return await new Promise((resolve) => {
      const request = http.get(
        { host, port, path: '/health', timeout: withinMs, agent: false },
        (response) => {
          response.resume()
          resolve(response.statusCode === 200)
        },
      )
      request.on('timeout', () => request.destroy(new Error('no response')))
      request.on('error', () => resolve(false))
    })
  }

  /** Kills a server that was started here, and restarts it. Does nothing for a remote server, or after `close`. */
  async restart(): Promise<void> {
    const localProcess = this.#localProcess
    if (localProcess === null || this.#isClosed) return
    this.#restartCount += 1
    await this.#restart(() => localProcess.kill())
  }

  /** Restarts the server. Requests wait until it has started; none is sent to the server that is stopping. */
  async #restart(stop: () => Promise<void>): Promise<void> {
    this.#restarting ??= stop()
      .then(() => this.start())
      .finally(() => {
        this.#restarting = null
      })
    await this.#restarting
  }

  /** Kills the server, which then writes nothing. */
  async abandon(): Promise<void> {
    this.#isClosed = true
    await this.#restarting?.catch(() => {})
    void this.#pool?.destroy()
    if (this.#process instanceof SqldChild) await this.#process.kill()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    // otherwise, it would start a server that is never stopped
    await this.#restarting?.catch(() => {})
    void this.#pool?.destroy()
    await this.#process?.close()
  }

  /** Returns the running server. If it has exited, it is restarted, repeatedly if necessary. */
  async ensureRunning(): Promise<SqldTarget> {
    for (let attempt = 0; attempt < MAX_RESTARTS; attempt += 1) {
      const process = this.#process
      if (process === null || this.isReady || this.#isClosed) break
      await this.#restart(() => process.close())
    }
    if (this.#process?.isRunning !== true) throw new Error('libsql-server is not running')
    return this.#process
  }

  /** Whether the server was started here, and is restarted when it exits. */
  get #isManaged(): boolean {
    return this.#options.remote === undefined && !this.#isClosed
  }

  /** How often the server was restarted although it was running. */
  get restartCount(): number {
    return this.#restartCount
  }

  /**
   * Calls the admin API. Retries if the server has just exited, because nothing was sent, or stopped during the call.
   * @param isRepeatable whether the call may be repeated if the server has received it
   */
  async withAdmin<T>(call: (admin: SqldAdmin) => Promise<T>, isRepeatable = true): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      const { admin } = await this.ensureRunning()
      try {
        return await call(admin)
      } catch (error) {
        const isInterrupted = isConnectionError(error) || isStopping(error)
        const maxAttempts = isRefused(error)
          ? MAX_ATTEMPTS
          : isRepeatable && isInterrupted
            ? MAX_ADMIN_ATTEMPTS
            : 1
        if (!this.#isManaged || attempt >= maxAttempts) throw error
        await sleep(isStopping(error) ? STOPPING_DELAY_MS : RETRY_DELAY_MS)
      }
    }
  }

  /**
   * Sends a request. Retries while the server reports an existing database as missing, in which case nothing was executed, and after
   * the server has exited, if the request was not sent or is read-only.
   */
  async send(call: UpstreamRequest, body: string | null): Promise<UpstreamResponse> {
    let failures = 0
    for (let responses = 0; ; await sleep(RETRY_DELAY_MS)) {
      let response: UpstreamResponse
      try {
        response = await this.sendOnce(call, body)
      } catch (error) {
        failures += 1
        if (!this.#mayRetryAfter(call, error, failures)) throw error
        continue
      }
      failures = 0
      responses += 1
      const mayRetry =
        isMissingDatabase(response, call.id) && responses < MAX_ATTEMPTS && !call.signal?.aborted
      if (!mayRetry || !(await this.exists(call.id))) return response
      discard(response)
    }
  }

  /** Whether a request that has failed this many times in a row may be sent again. */
  #mayRetryAfter({ permissions, signal }: UpstreamRequest, error: unknown, failures: number): boolean {
    // once a response has begun, the request has been executed
    if (error instanceof TruncatedResponseError || signal?.aborted === true || !this.#isManaged) return false
    if (isRefused(error)) return failures < MAX_ATTEMPTS
    return isConnectionError(error) && failures === 1 && !permissions.write
  }

  /** Sends one request, built from the client's parsed request; nothing is forwarded verbatim. */
  async sendOnce(
    { id, request: { method, path, query }, permissions, signal, hasEnough }: UpstreamRequest,
    body: string | null,
  ): Promise<UpstreamResponse> {
    if (!this.isReady) await this.ensureRunning()
    if (this.#pool === null) throw new Error('libsql-server was not started')
    const target = { method, path: path + query, headers: this.#getHeaders(id, permissions), body }
    return await exchange(this.#pool, target, signal, hasEnough)
  }

  /** Returns headers without a token for a remote server that requires none. */
  #getHeaders(id: DatabaseId, permissions: SenderPermissions): DatabaseHeaders {
    const { isOpen, remote } = this.#options
    if (isOpen && remote !== undefined) return buildNamespaceHeader(id)
    const attach = this.#callbacks.filterAttachable(id, permissions.attach)
    return this.#tokens.getHeaders(id, { ...permissions, attach })
  }
}

/**
 * Loads undici's pool, which the embedded back end does not need. Imports only the pool's file: all of undici takes three times
 * as long to load, and Bun replaces it with a version that has no `dispatch`.
 */
async function importPool(): Promise<typeof Pool> {
  // @ts-expect-error undici has no types for its individual files
  return (await import('undici/lib/dispatcher/pool.js')).default
}

/** Whether a response is the 404 for a missing database. It is recognized by its length, so that the body is not consumed. */
function isMissingDatabase({ status, headers }: UpstreamResponse, id: DatabaseId): boolean {
  if (status !== 404) return false
  const text = JSON.stringify({ error: `Namespace \`${id}\` doesn't exist` })
  return Number(headers['content-length']) === Buffer.byteLength(text)
}

/** Whether the connection was refused, in which case nothing was sent. */
function isRefused(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
}

/** Whether a connection was closed or refused because the server exited. */
export function isConnectionError(error: unknown): boolean {
  return (
    error instanceof TruncatedResponseError ||
    CONNECTION_ERROR_CODES.has((error as NodeJS.ErrnoException).code)
  )
}
