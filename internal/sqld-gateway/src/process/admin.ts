import http from 'node:http'
import { text as readAll } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

/** How long a change that is rejected for a transient reason is retried, and the delay between attempts. */
const MAX_REJECTED_MS = 10_000
const REJECTED_DELAY_MS = 50
/**
 * Matches transient rejections. A database with a shared schema cannot be changed while the schema is being migrated, nor can any
 * database while the server records the progress of a migration, because the server does not wait for the lock on its own
 * database. Removing a directory fails if a file is created in it at the same time; by then, the server no longer lists the
 * database.
 */
const TRANSIENT_REJECTION = /pending migration|database is locked|Directory not empty/
/** How long to wait for a response. */
const TIMEOUT_MS = 30_000
/**
 * Time limit of the first attempt to create a database with a shared schema. If more databases are in use than the server keeps
 * open, it may try to close the one that it is creating, and deadlock until the request is canceled.
 */
const CHILD_TIMEOUT_MS = 8_000
/** Maximum number of lookups before a namespace counts as missing, and the delay between them. */
const MISSING_ATTEMPTS = 100
const MISSING_DELAY_MS = 50

class SqldAdminError extends Error {
  override readonly name = 'SqldAdminError'
  readonly status: number

  constructor(message: string, status: number) {
    super(message)
    this.status = status
  }
}

/** Configuration of a namespace. It is always complete, because omitted fields are reset. */
export interface SqldNamespaceConfig {
  readonly jwt_key?: string | undefined
  readonly max_db_size?: string | undefined
  readonly allow_attach: boolean
  readonly block_reads: boolean
  readonly block_writes: boolean
  readonly block_reason?: string | undefined
}

export interface SqldNamespaceSource {
  readonly shared_schema?: true
  /** The namespace whose schema it shares. */
  readonly shared_schema_name?: string
}

/** The statistics of a namespace that are used here. */
export interface SqldNamespaceStats {
  readonly rows_read_count: number
  readonly rows_written_count: number
  readonly storage_bytes_used: number
  readonly top_queries?: readonly {
    readonly query: string
    readonly rows_read: number
    readonly rows_written: number
  }[]
}

/** Returns null for the error of a missing namespace. @throws any other error */
function ignoreMissing(error: unknown): null {
  if (error instanceof SqldAdminError && error.status === 404) return null
  throw error
}

/** Whether the server rejects a call because it is stopping. */
export const isStopping = (error: unknown): boolean =>
  error instanceof SqldAdminError && /channel closed|Namespace store has shutdown/.test(error.message)

/** Thrown if the server does not respond in time. */
class SqldAdminTimeoutError extends Error {
  override readonly name = 'SqldAdminTimeoutError'
}

/** Retries a change while it is rejected for a transient reason. */
export async function retryTransient(change: () => Promise<void>): Promise<void> {
  const deadline = performance.now() + MAX_REJECTED_MS
  for (;;) {
    try {
      return await change()
    } catch (error) {
      const isTransient = error instanceof SqldAdminError && TRANSIENT_REJECTION.test(error.message)
      if (!isTransient || performance.now() > deadline) throw error
      await sleep(REJECTED_DELAY_MS)
    }
  }
}

/** Client of the admin API of one server process. */
export class SqldAdmin {
  readonly #address: { readonly host: string; readonly port: number }
  readonly #key: string
  readonly #childTimeoutMs: number
  #lastChange: Promise<unknown> = Promise.resolve()

  constructor(
    address: { readonly host: string; readonly port: number },
    key: string,
    childTimeoutMs = CHILD_TIMEOUT_MS,
  ) {
    this.#address = address
    this.#key = key
    this.#childTimeoutMs = childTimeoutMs
  }

  /** Whether the process on the port accepts our key. */
  async isReady(): Promise<boolean> {
    try {
      return (await this.#send('GET', '/')).includes('sqld admin API')
    } catch {
      return false
    }
  }

  async create(
    namespace: string,
    config: SqldNamespaceConfig,
    source: SqldNamespaceSource = {},
  ): Promise<void> {
    const { jwt_key, max_db_size, allow_attach } = config
    const body = { jwt_key, max_db_size, allow_attach, ...source }
    const call = (timeoutMs: number): Promise<void> =>
      this.#call('POST', `/v1/namespaces/${namespace}/create`, body, timeoutMs)
    if (source.shared_schema_name === undefined) await call(TIMEOUT_MS)
    else
      await call(this.#childTimeoutMs).catch(async (error: unknown) => {
        if (!(error instanceof SqldAdminTimeoutError)) throw error
        await this.discard(namespace, config)
        await call(TIMEOUT_MS)
      })
    // create ignores the blocks
    if (config.block_reads || config.block_writes) await this.configure(namespace, config)
  }

  /** Copies a namespace with its configuration; the new name must never have existed. */
  async fork(from: string, to: string): Promise<void> {
    await this.#call('POST', `/v1/namespaces/${from}/fork/${to}`, {})
  }

  async stats(namespace: string): Promise<SqldNamespaceStats> {
    return JSON.parse(await this.#send('GET', `/v1/namespaces/${namespace}/stats`)) as SqldNamespaceStats
  }

  /**
   * Runs a WAL checkpoint that truncates the WAL unless a reader needs it. The response does not report whether it did.
   * The namespace is loaded first: a checkpoint of an unloaded namespace makes the server report it as missing until the
   * next start.
   */
  async checkpoint(namespace: string): Promise<void> {
    await this.#send('GET', `/v1/namespaces/${namespace}/config`)
    await this.#send('POST', `/v1/namespaces/${namespace}/checkpoint`, {})
  }

  async configure(namespace: string, config: SqldNamespaceConfig): Promise<void> {
    await retryTransient(() => this.#call('POST', `/v1/namespaces/${namespace}/config`, config))
  }

  /** Configures a namespace. @returns false if it does not exist */
  async configureIfExists(namespace: string, config: SqldNamespaceConfig): Promise<boolean> {
    return await this.#retryWhileMissing(() => this.configure(namespace, config))
  }

  async exists(namespace: string): Promise<boolean> {
    return await this.#retryWhileMissing(() => this.#send('GET', `/v1/namespaces/${namespace}/config`))
  }

  /** Returns the configuration of a namespace; null if it does not exist. */
  async readConfig(namespace: string): Promise<SqldNamespaceConfig | null> {
    const config = await this.#send('GET', `/v1/namespaces/${namespace}/config`).catch(ignoreMissing)
    return config === null ? null : (JSON.parse(config) as SqldNamespaceConfig)
  }

  /**
   * Retries a call, because the server sometimes reports an existing database as missing if more are in use than it keeps open.
   * @returns whether the namespace exists
   */
  async #retryWhileMissing(call: () => Promise<unknown>): Promise<boolean> {
    for (let attempt = 1; attempt <= MISSING_ATTEMPTS; attempt += 1) {
      if (attempt > 1) await sleep(MISSING_DELAY_MS)
      if ((await call().catch(ignoreMissing)) !== null) return true
    }
    return false
  }

  /** Removes a namespace, if it exists. */
  async remove(namespace: string): Promise<void> {
    await retryTransient(() => this.#call('DELETE', `/v1/namespaces/${namespace}`, {})).catch(ignoreMissing)
  }

  /**
   * Cleans up after a creation that was rejected or got no response. A rejected fork can remain in the server's memory only: it cannot be removed, and
   * its name cannot be used for another fork, until `create` has registered it.
   */
  async discard(namespace: string, config: SqldNamespaceConfig): Promise<void> {
    await this.remove(namespace)
    await this.create(namespace, config)
    await this.remove(namespace)
  }

  /** Sends one change at a time: concurrent changes while a shared schema migrates can block the server forever. */
  async #call(method: string, path: string, body: object, timeoutMs = TIMEOUT_MS): Promise<void> {
    const change = this.#lastChange.then(() => this.#send(method, path, body, timeoutMs))
    this.#lastChange = change.catch(() => {})
    await change
  }

  #send(method: string, path: string, body?: object, timeoutMs = TIMEOUT_MS): Promise<string> {
    return new Promise((resolve, reject) => {
      const headers: Record<string, string> = { authorization: `basic ${this.#key}` }
      const text = body === undefined ? undefined : JSON.stringify(body)
      if (text !== undefined) {
        headers['content-type'] = 'application/json'
        headers['content-length'] = String(Buffer.byteLength(text))
      }
      const options = { ...this.#address, method, path, headers, agent: false, timeout: timeoutMs }
      const request = http.request(options, (response) => {
        const { statusCode: status = 0, headers: responseHeaders } = response
        // the server responds to an unknown path with status 200 and a gRPC body, so a typo would look like success
        const isAccepted = status === 200 && responseHeaders['content-type']?.includes('grpc') !== true
        readAll(response).then((result) => {
          if (isAccepted) resolve(result)
          else reject(new SqldAdminError(`sqld rejected ${method} ${path}: ${result || status}`, status))
        }, reject)
      })
      request.on('timeout', () =>
        request.destroy(
          new SqldAdminTimeoutError(`the admin API of sqld did not respond to ${method} ${path}`),
        ),
      )
      request.on('error', reject)
      request.end(text)
    })
  }
}
