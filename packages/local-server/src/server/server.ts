import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getReplicaLocations, type SnapshotRow } from '@batonsql/control-plane'
import { INSPECTOR_PATH } from '@batonsql/inspector'
import {
  checkOption,
  checkOptions,
  NON_EMPTY,
  PLAIN_OBJECT,
  PORT,
  type RulesOf,
  STRINGS,
} from '@batonsql/options'
import { isLoopback } from '@batonsql/server-common/auth'
import type { ReplicaCondition } from '@batonsql/server-common/backend'
import { runAll } from '@batonsql/server-common/base'
import { DIALECTS } from '@batonsql/server-common/hrana'
import { createHttpServer, getLocalUrl, listen } from '@batonsql/server-common/http'
import type { Failure, FailureKind, FailureOptions } from './failure-options.ts'
import { type LocalPlatform, newPlatform } from './local-platform.ts'
import { checkLocations } from './option-rules.ts'
import { checkPlatformOptions, type PlatformOptions } from './platform-options.ts'
import type { PlatformServer } from './platform-server.ts'
import { DEFAULT_DATABASE } from './resolve-address.ts'
import { serve } from './serve.ts'
import { LOG_LEVELS, ServerLog } from './server-log.ts'
import {
  type DatabaseOptions,
  type LocalServerOptions,
  type NewDatabaseOptions,
  type Snapshot,
  type TokenOptions,
  takesTokens,
} from './server-options.ts'
import { Service } from './service.ts'

/** The address of a database, in the form that clients accept as their configuration. */
export interface DatabaseAddress {
  readonly url: string
  /** Present if the server takes tokens. */
  readonly authToken?: string
}

const OPTIONS: RulesOf<LocalServerOptions> = {
  backend: ['embedded', 'sqld'],
  dataDirectory: NON_EMPTY,
  databases: PLAIN_OBJECT,
  port: PORT,
  host: NON_EMPTY,
  auth: 'boolean',
  dialect: DIALECTS,
  platform: 'object',
  sqldPath: 'string',
  sqld: PLAIN_OBJECT,
  replicas: STRINGS,
  replicaLagMs: 'number or object',
  domains: PLAIN_OBJECT,
  allowOrigins: STRINGS,
  inspector: 'boolean',
  log: LOG_LEVELS,
  onLost: 'function',
}
const CONDITION: RulesOf<ReplicaCondition> = { lagMs: 'number', isDown: 'boolean' }

const toSnapshot = ({ name, bytes, createdAt }: SnapshotRow): Snapshot => ({
  name,
  bytes,
  createdAt: new Date(createdAt),
})

/**
 * Starts a database server on this machine and waits until it accepts requests. Close it, or use `await using`.
 * @throws TypeError or RangeError for an option; Error if the server cannot start
 */
export async function startLocalServer(options: LocalServerOptions = {}): Promise<LocalServer> {
  checkOptions(options, OPTIONS, 'startLocalServer')
  const { backend = 'embedded', port = 0, host = '127.0.0.1', platform } = options
  if (platform !== undefined) checkPlatformOptions(platform)
  if (options.dialect !== undefined && backend !== 'embedded')
    throw new TypeError('startLocalServer: dialect requires the back end "embedded"')
  if (options.sqld !== undefined && backend !== 'sqld')
    throw new TypeError('startLocalServer: sqld requires the back end "sqld"')
  checkReplicas(options)
  if (options.inspector === true && takesTokens(options))
    throw new TypeError(
      'startLocalServer: inspector cannot be combined with tokens (auth, or platform without auth: false), because it shows the statements of every database without a token',
    )
  const log = new ServerLog(options.log ?? 'none')
  const service = await Service.start({ ...options, listenHost: host, log })
  let server: LocalServer | null = null
  try {
    const http = createHttpServer((incoming, outgoing) => void serve(service, incoming, outgoing))
    log.watch(http, 'databases')
    await listen(http, port, host)
    server = newServer(service, http)
    if (platform !== undefined) await servePlatform(server, platform)
    log.write('info', 'start', {
      url: server.url,
      platformUrl: server.platform?.url,
      backend,
      version: service.parts.version,
      dataDirectory: options.dataDirectory,
    })
    return server
  } catch (error) {
    await (server ?? service).close().catch(() => {}) // reports the first error instead
    throw error
  }
}

function checkReplicas({ backend, sqld, replicas, replicaLagMs = 0 }: LocalServerOptions): void {
  const isUsed = replicas !== undefined || replicaLagMs !== 0
  if (isUsed && (backend !== 'sqld' || sqld !== undefined))
    throw new TypeError('startLocalServer: replicas require the back end "sqld" without a URL')
  // a number has no keys
  checkLocations('startLocalServer', [...(replicas ?? []), ...Object.keys(replicaLagMs)])
  const lags = typeof replicaLagMs === 'number' ? [replicaLagMs] : Object.values(replicaLagMs)
  for (const lagMs of lags) checkCondition('startLocalServer', { lagMs })
}

function checkCondition(subject: string, condition: ReplicaCondition): void {
  checkOptions(condition, CONDITION, subject)
  const { lagMs = 0 } = condition
  if (!Number.isInteger(lagMs) || lagMs < 0 || lagMs >= 2 ** 31)
    throw new RangeError(`${subject}: the lag must be a whole number of milliseconds below 2^31`)
}

// set by the static block of the class: a public constructor would put `Service` into the declarations of the package
let newServer: (service: Service, http: Server) => LocalServer
let servePlatform: (server: LocalServer, options: PlatformOptions) => Promise<void>

/** A running local server. */
export class LocalServer implements AsyncDisposable {
  readonly #service: Service
  readonly #http: Server
  readonly port: number
  #platform: { readonly server: PlatformServer; readonly local: LocalPlatform } | null = null
  #closing: Promise<void> | null = null

  static {
    newServer = (service, http) => new LocalServer(service, http)
    servePlatform = (server, options) => server.#servePlatform(options)
  }

  private constructor(service: Service, http: Server) {
    this.#service = service
    this.#http = http
    this.port = (http.address() as AddressInfo).port
  }

  /** URL of the database `default`; other databases are at `url/<name>/`. */
  get url(): string {
    return getLocalUrl(this.#service.parts.host, this.port)
  }

  /** URL of the request inspector; null without `inspector`, or if the server cannot be reached at a loopback address. */
  get inspectorUrl(): string | null {
    return this.#service.parts.inspector && isLoopback(new URL(this.url).hostname)
      ? `${this.url}${INSPECTOR_PATH}`
      : null
  }

  /** Absolute path of the data directory; a temporary one is removed by `close()`. */
  get dataDirectory(): string {
    return this.#service.parts.directory
  }

  get backend(): 'embedded' | 'sqld' {
    return this.#service.controlPlane.backend.kind
  }

  /** The response to `GET /version`. */
  get version(): string {
    return this.#service.parts.version
  }

  /** Whether requests to databases need tokens. */
  get takesTokens(): boolean {
    return this.#service.parts.takesTokens
  }

  /** Names of the databases that are ready, of the operator's organization only. */
  get databaseNames(): readonly string[] {
    return this.#service.databaseNames
  }

  /**
   * Returns the URL of a database. Unless it is that of `default`, it ends with a slash, because some clients would drop the last
   * segment of the path.
   */
  urlOf(name: string): string {
    return name === DEFAULT_DATABASE ? this.url : `${this.url}/${name}/`
  }

  /** Returns the URLs of a database's replicas, by location. */
  replicaUrls(name: string): Readonly<Record<string, string>> {
    const row = this.#service.getDatabase(name)
    const { registry, addresses } = this.#service.controlPlane
    const getUrl = (location: string): string => `${this.url}/${addresses.getPath(row, location)}/`
    return Object.fromEntries(
      getReplicaLocations(registry, row).map((location) => [location, getUrl(location)]),
    )
  }

  /**
   * Creates a database. Names have 1 to 64 characters, `a-z`, `0-9` and `-`, and begin with a letter or digit. Rejects if the name is
   * taken or reserved, and after `close()`.
   */
  async createDatabase(name: string, options: NewDatabaseOptions = {}): Promise<DatabaseAddress> {
    await this.#service.createDatabase(name, options)
    return await this.#addressOf(name)
  }

  async #addressOf(name: string): Promise<DatabaseAddress> {
    const authToken = await this.#service.getOwnerToken(name)
    return { url: this.urlOf(name), ...(authToken !== undefined && { authToken }) }
  }

  /** Returns the id of a database, as used in tokens and jobs. */
  databaseId(name: string): string {
    return this.#service.getDatabase(name).id
  }

  /** Changes the given settings of a database and keeps the others. */
  async updateDatabase(name: string, options: DatabaseOptions): Promise<void> {
    await this.#service.updateDatabase(name, options)
  }

  /**
   * Makes requests to a database fail, so that a program's own handling of failures can be tested. Without options, the next request
   * with statements fails.
   * @throws TypeError for an unknown kind or option; Error if the database does not exist
   */
  fail(name: string, kind: FailureKind, options: FailureOptions = {}): Failure {
    return this.#service.parts.router.failures.add(this.#service.getDatabase(name).id, kind, options)
  }

  /** Opens a database, so that its first request does not wait for that. */
  async openDatabase(name: string): Promise<void> {
    await this.#service.controlPlane.backend.findHealthProblem(this.#service.getDatabase(name).id)
  }

  /** Removes a database and its data, and closes its streams. */
  async deleteDatabase(name: string): Promise<void> {
    await this.#service.deleteDatabase(name)
  }

  /**
   * Writes a snapshot of a database to a new SQLite file while reads and writes continue. Rejects if the file exists, and with a
   * libsql-server given by URL.
   */
  async exportDatabase(name: string, file: string): Promise<void> {
    await this.#service.exportDatabase(name, file)
  }

  /**
   * Keeps a copy of the current state of a database in the data directory, while reads and writes continue. A database has at most
   * 50 snapshots, which are removed with it. Rejects with a libsql-server given by URL.
   * @param name 1 to 64 characters, `a-z`, `0-9` and `-`, not beginning with `-`. @default the time
   */
  async createSnapshot(database: string, name?: string): Promise<Snapshot> {
    if (name !== undefined) checkOption('createSnapshot: the name', name, 'string')
    const creation = this.#snapshots.create(this.#service.getDatabase(database), name)
    return toSnapshot(await this.#service.controlPlane.track(creation))
  }

  /** Returns the snapshots of a database, oldest first. */
  listSnapshots(database: string): readonly Snapshot[] {
    return this.#snapshots.list(this.#service.getExistingDatabase(database).id).map(toSnapshot)
  }

  /**
   * Replaces the content of a database with one of its snapshots. First, its requests and transactions are aborted; if this
   * rejects, it keeps its content. It keeps its name, group, settings and snapshots, and gets a new id: tokens for this database
   * are invalid from then on, those for its group remain valid.
   * @returns its address, with a new token if the server takes tokens
   */
  async restoreSnapshot(database: string, name: string): Promise<DatabaseAddress> {
    checkOption('restoreSnapshot: the name', name, 'string')
    const restoration = this.#snapshots.restore(this.#service.getExistingDatabase(database), name)
    await this.#service.controlPlane.track(restoration)
    return await this.#addressOf(database)
  }

  /** Removes a snapshot. */
  async deleteSnapshot(database: string, name: string): Promise<void> {
    checkOption('deleteSnapshot: the name', name, 'string')
    const removal = this.#snapshots.remove(this.#service.getExistingDatabase(database), name)
    await this.#service.controlPlane.track(removal)
  }

  get #snapshots() {
    return this.#service.controlPlane.snapshots
  }

  /** Creates a token for a database. Rejects if the server takes no tokens. */
  async createToken(name: string, options: TokenOptions = {}): Promise<string> {
    return await this.#service.createToken(name, options)
  }

  /**
   * Makes the replicas in a location lag, stops them, or brings them back; omitted conditions stay unchanged. A new lag
   * applies to changes that have not been replicated yet. Needs the back end `sqld` without a URL.
   */
  async setReplica(location: string, condition: ReplicaCondition): Promise<void> {
    checkLocations('setReplica', [location])
    checkCondition('setReplica', condition)
    this.#service.checkOpen()
    const { registry, backend } = this.#service.controlPlane
    if (backend.setReplicas === undefined)
      throw new Error('replicas require the back end "sqld" without a URL')
    this.#service.parts.conditions.change(location, condition)
    for (const { id } of registry.groups.rows) await backend.setReplicas(id)
  }

  /** The platform API and the owner's token; null on a server without `platform`. */
  get platform(): LocalPlatform | null {
    return this.#platform?.local ?? null
  }

  async #servePlatform(options: PlatformOptions): Promise<void> {
    const { parts } = this.#service
    const databaseOrigin = (): string => this.url.replace(/^http:\/\//, '')
    // most servers have no platform API, whose libraries take longer to load than the rest of the server
    const { PlatformServer } = await import('./platform-server.ts')
    const server = await PlatformServer.start(options, { ...parts, databaseOrigin })
    const local = newPlatform(parts.controlPlane, server.url)
    this.#platform = { server, local }
  }

  /**
   * Returns the number of HTTP requests since the start, to one database or to all. The count of a database begins again at 0 when a
   * snapshot of it is restored; it is 0 for an unknown name.
   */
  requestCount(name?: string): number {
    return this.#service.parts.router.requestCount(name)
  }

  /** Stops the server: aborts requests in flight and rolls back open transactions. Committed data is kept. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    this.#service.rejectChanges()
    await runAll([
      () => this.#platform?.server.close(),
      async () => {
        const closing = new Promise((resolve) => this.#http.close(resolve))
        this.#http.closeAllConnections()
        await closing
      },
      () => this.#service.close(),
    ])
    this.#service.parts.log.write('info', 'stop', {})
  }
}
