import { randomUUID } from 'node:crypto'
import { mkdir, rm, truncate } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ReachableDatabases, TokenCheck } from '@batonsql/server-common/auth'
import {
  BackendError,
  buildExportResponse,
  type DatabaseBackend,
  type DatabaseId,
  type DatabaseSettings,
  type DatabaseSource,
  DEFAULT_SETTINGS,
  type ExportedFile,
  hasDatabaseFile,
  isExportRoute,
  MissingFileError,
  newDatabaseId,
  PROBE,
  probeDatabase,
  type QueryUsage,
  type ReplicaConditions,
  ReplicaStartError,
  type RevokedAccess,
  type RunningExports,
  type RunningRequest,
  RunningRequests,
  revokedResponse,
  setAside,
  type UsageSample,
} from '@batonsql/server-common/backend'
import { JsonShapeError, PipelineFailure } from '@batonsql/server-common/hrana'
import {
  errorResponse,
  type ServiceRequest,
  type ServiceResponse,
  textResponse,
} from '@batonsql/server-common/http'
import { buildClientResponse } from './build-client-response.ts'
import { copyOpenDatabase, importFile } from './copy-database.ts'
import {
  isStopping,
  retryTransient,
  type SqldNamespaceConfig,
  type SqldNamespaceSource,
} from './process/admin.ts'
import { readBody } from './process/exchange.ts'
import { InternalRequests } from './process/internal-requests.ts'
import { isConnectionError, Upstream, type UpstreamOptions } from './process/upstream.ts'
import type { SenderPermissions } from './process/upstream-tokens.ts'
import { ReplicaSet } from './replicas/replica-set.ts'
import { type ClientRequest, StreamRequests, type StreamRules } from './stream-requests.ts'
import type { StallTimes } from './writes/stall-detector.ts'
import { WriteService } from './writes/write-service.ts'

/** Options of a {@link SqldBackend}. */
export interface SqldBackendOptions extends UpstreamOptions {
  /** Receives notices about the server of a database. */
  readonly onNotice: (id: DatabaseId, text: string) => void
  /** How long writes may go without a response before the server counts as stalled. @default STALL_TIMES */
  readonly stallTimes?: StallTimes
  /** Resolves a name in ATTACH. By default, databases are attached only by id. */
  readonly resolveName?: (from: DatabaseId, name: string) => DatabaseId | undefined
  /** Restricts the databases that a token may attach. By default, there is no restriction. */
  readonly reachable?: ReachableDatabases | undefined
  readonly conditions: ReplicaConditions
  /** Whether replicas are wanted in a location. By default, in each that is requested. */
  readonly isReplicaLocation?: (location: string) => boolean
}

/** Practically unlimited; for the server, null means "unchanged". */
const NO_SIZE_LIMIT = '1000pb'
/** Maximum number of attempts to apply settings while the server is being restarted. */
const APPLY_ATTEMPTS = 5
/** Delay between two attempts while the server is stopping, which takes up to 2 s. */
const STOPPING_DELAY_MS = 1_000
const REMOVED_MESSAGE =
  'the replica was removed while this request was running; it is unknown whether the request was applied'
const CLOSED_MESSAGE =
  'libsql-server exited, or closed the connection, while running this request; it is unknown whether the request was applied'

interface Counts {
  readonly rowsRead: number
  readonly rowsWritten: number
}

/** Serves the database API from one libsql-server, with a namespace for each database. */
export class SqldBackend implements DatabaseBackend {
  readonly kind = 'sqld' as const
  readonly hasTablePermissions = false
  readonly #options: SqldBackendOptions
  readonly #tokens: TokenCheck
  readonly #upstream: Upstream
  readonly #internal: InternalRequests
  readonly #writes: WriteService
  readonly #streams: StreamRequests
  readonly #settings = new Map<DatabaseId, DatabaseSettings>()
  /** Databases that other databases may attach; usually few. */
  readonly #attachable = new Set<DatabaseId>()
  readonly #running = new RunningRequests()
  readonly #replicas: ReplicaSet
  #restarting: Promise<void> | null = null
  readonly #runningExports: RunningExports = new Map()
  /** Distinguishes the counts of the current process from earlier ones. */
  #epoch = ''
  /** Counts of each database when first read from the current process, because the server keeps them across restarts. */
  readonly #baseCounts = new Map<DatabaseId, Promise<Counts>>()

  constructor(options: SqldBackendOptions) {
    this.#options = options
    this.#tokens = new TokenCheck(options.isOpen, options.reachable)
    this.#upstream = new Upstream(options, {
      onStart: () => this.#startCounts(),
      filterAttachable: (to, allowed) => this.#filterAttachable(to, allowed),
    })
    this.#internal = new InternalRequests(this.#upstream)
    const { remote, onNotice, stallTimes, ...shared } = options
    this.#writes = new WriteService(this.#upstream, this.#internal, {
      getFile: remote === undefined ? (id) => this.#getDataFile(id) : null,
      onNotice,
      stallTimes,
    })
    this.#streams = new StreamRequests(this.#upstream, this.#internal, this.#writes)
    this.#replicas = new ReplicaSet({
      ...shared,
      primary: this.#upstream,
      writes: this.#writes,
      filterAttachable: (to, allowed) => this.#filterAttachable(to, allowed),
    })
  }

  async start(): Promise<string> {
    await rm(this.#temporaryFolder, { recursive: true, force: true })
    const version = await this.#upstream.start()
    if (this.#options.remote !== undefined) await this.#checkSeparate()
    return version
  }

  #startCounts(): void {
    this.#epoch = this.#options.remote === undefined ? randomUUID() : 'remote'
    this.#baseCounts.clear()
    this.#writes.forgetAllStreams()
    this.#streams.forgetAbandoned()
  }

  /** Checks that databases are separate: without `--enable-namespaces`, all names share one database. */
  async #checkSeparate(): Promise<void> {
    const [firstId, secondId] = [newDatabaseId(), newDatabaseId()]
    try {
      for (const id of [firstId, secondId]) await this.create(id, { type: 'empty' }, DEFAULT_SETTINGS)
      await this.#internal.query(firstId, 'CREATE TABLE baton_probe (a)')
      const tables = await this.#internal.query(
        secondId,
        "SELECT name FROM sqlite_schema WHERE name = 'baton_probe'",
      )
      if (tables.includes('"value":"baton_probe"')) throw new Error('two names refer to the same database')
    } catch (error) {
      throw new Error(
        'this libsql-server does not keep databases separate; start it with --enable-namespaces',
        { cause: error },
      )
    } finally {
      for (const id of [firstId, secondId]) await this.remove(id).catch(() => {})
    }
  }

  /** Does nothing: libsql-server has resumed its migrations when it started. */
  resume(): void {}

  async setAsideUnregistered(registeredIds: ReadonlySet<DatabaseId>): Promise<readonly DatabaseId[]> {
    if (this.#options.remote !== undefined) return []
    return (await setAside(this.#dataFolder, registeredIds)).map(({ id }) => id)
  }

  get #dataFolder(): string {
    return join(this.#options.directory, 'sqld', 'dbs')
  }

  /** Whether a database has its files. Those of a remote server are not visible, and are assumed to exist. */
  async #hasFiles(id: DatabaseId): Promise<boolean> {
    if (this.#options.remote !== undefined) return true
    return hasDatabaseFile(this.#getDataFile(id))
  }

  async create(id: DatabaseId, source: DatabaseSource, settings: DatabaseSettings): Promise<void> {
    const config = this.#buildConfig(settings)
    let isRetry = false
    await retryTransient(async () => {
      // the server has already created the rejected database, possibly without the pending migration
      if (isRetry) await this.#upstream.withAdmin((admin) => admin.discard(id, config))
      isRetry = true
      await this.#createNamespace(id, source, config)
    })
    this.#storeSettings(id, settings)
  }

  async #createNamespace(id: DatabaseId, source: DatabaseSource, config: SqldNamespaceConfig): Promise<void> {
    const create = (from: SqldNamespaceSource = {}): Promise<void> =>
      this.#upstream.withAdmin((admin) => admin.create(id, config, from))
    if (source.type === 'fork' && this.#options.remote === undefined) {
      // the server's own fork blocks all other changes, and takes longer than their time limit for 1 GB
      await this.#createWithFile(id, (file) => this.exportTo(source.from, file), create)
    } else if (source.type === 'fork') {
      await this.#upstream.withAdmin((admin) => admin.fork(source.from, id))
      // the fork starts with the original's keys
      await this.#upstream.withAdmin((admin) => admin.configure(id, config))
    } else if (source.type === 'file') {
      const write = (file: string): Promise<void> => importFile(source.file, file, this.#temporaryFolder)
      await this.#createWithFile(id, write, create)
    } else await create(namespaceSource(source))
  }

  /** Creates a database whose file is already in place. */
  async #createWithFile(
    id: DatabaseId,
    write: (file: string) => Promise<void>,
    create: () => Promise<void>,
  ): Promise<void> {
    const to = this.#getDataFile(id)
    // an interrupted removal may have left the folder
    await rm(dirname(to), { recursive: true, force: true })
    await mkdir(dirname(to), { recursive: true })
    try {
      await write(to)
      await create()
    } catch (error) {
      await rm(dirname(to), { recursive: true, force: true })
      // the server crashes on a damaged file
      throw isConnectionError(error) ? new BackendError('libsql-server cannot open the file') : error
    }
  }

  /** @throws BackendError for a remote server, or if the database has no file, which would be copied as an empty one */
  async exportTo(id: DatabaseId, file: string): Promise<void> {
    const from = this.#getDataFile(id)
    if (!hasDatabaseFile(from)) throw new MissingFileError()
    await this.#upstream.ensureRunning()
    await copyOpenDatabase(from, file)
  }

  async #export(id: DatabaseId): Promise<ExportedFile> {
    const folder = this.#temporaryFolder
    await mkdir(folder, { recursive: true })
    const path = join(folder, `${randomUUID()}.db`)
    await this.exportTo(id, path)
    return { path, remove: async () => await rm(path, { force: true }) }
  }

  /** Files left here by a killed process are removed at startup. */
  get #temporaryFolder(): string {
    return join(this.#options.directory, 'exports')
  }

  #getDataFile(id: DatabaseId): string {
    if (this.#options.remote !== undefined)
      throw new BackendError('the files of a remote libsql-server are not accessible; use /dump')
    return join(this.#dataFolder, id, 'data')
  }

  async applySettings(id: DatabaseId, settings: DatabaseSettings): Promise<boolean> {
    const wasBlocked = this.#settings.get(id)?.blockReads === true
    this.#storeSettings(id, settings)
    if (wasBlocked && !settings.blockReads)
      for (const replica of await this.#replicas.listStarted()) replica.onUnblock(id)
    const exists = await this.#applyToServer(id, settings)
    if (!this.#attachable.has(id)) await this.#running.abortAttaching(id)
    return exists
  }

  async #applyToServer(id: DatabaseId, settings: DatabaseSettings): Promise<boolean> {
    // if the file were missing, the server would create an empty database
    if (!(await this.#hasFiles(id))) return false
    for (let attempt = 1; ; attempt += 1) {
      const { admin } = await this.#upstream.ensureRunning()
      try {
        // newer settings may have been applied meanwhile
        return await admin.configureIfExists(id, this.#buildConfig(this.#settings.get(id) ?? settings))
      } catch (error) {
        // the server was stopped during the request
        const canRetry = isConnectionError(error) || isStopping(error)
        if (!canRetry || this.#options.remote !== undefined || attempt === APPLY_ATTEMPTS) throw error
        if (isStopping(error)) await sleep(STOPPING_DELAY_MS)
      }
    }
  }

  async remove(id: DatabaseId): Promise<void> {
    this.#tokens.forget(id)
    this.#running.abort(id)
    await this.#running.abortAttaching(id)
    // open streams would occupy slots of the process until they expire
    const streams = [this.#streams, ...(await this.#replicas.listStarted()).map((replica) => replica.streams)]
    await Promise.all(streams.map((requests) => requests.closeStreams(id, 'all')))
    this.#settings.delete(id)
    this.#attachable.delete(id)
    this.#baseCounts.delete(id)
    this.#writes.remove(id)
    const removeNamespace = (): Promise<void> => this.#upstream.withAdmin((admin) => admin.remove(id))
    await removeNamespace().catch(async (error: Error) => {
      // the server records the removal before it frees the space
      if (this.#options.remote !== undefined || !error.message.includes('disk is full')) throw error
      await this.#emptyFiles(id)
      await removeNamespace()
    })
    // the server leaves behind a directory in which a file was created during the removal
    if (this.#options.remote === undefined)
      await rm(dirname(this.#getDataFile(id)), { recursive: true, force: true, maxRetries: 5 })
    for (const replica of await this.#replicas.listStarted()) await replica.remove(id)
  }

  /** Empties the files of a database that is no longer in use. */
  async #emptyFiles(id: DatabaseId): Promise<void> {
    const folder = dirname(this.#getDataFile(id))
    for (const name of ['data', 'data-wal', 'wallog'])
      await truncate(join(folder, name)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error
      })
  }

  async revokeAccess(id: DatabaseId, access: RevokedAccess): Promise<void> {
    const streams = [this.#streams, ...(await this.#replicas.listStarted()).map((replica) => replica.streams)]
    const closed = Promise.all(streams.map((requests) => requests.closeStreams(id, access)))
    const remaining = await this.#running.revoke(id, access)
    for (const request of remaining) request.onForcedAbort()
    await closed
    const mayStillWrite =
      remaining.some((request) => request.mayWrite()) || streams.some((requests) => requests.isAbandoned(id))
    if (mayStillWrite) await this.#restartAfterRevocation(id)
  }

  /** Restarts the server, which would continue a running batch even after its connection is closed. */
  async #restartAfterRevocation(id: DatabaseId): Promise<void> {
    const { remote, onNotice } = this.#options
    const reason = 'a request that may write was still running after its access was revoked'
    if (remote !== undefined) {
      this.#streams.forgetAbandoned()
      return onNotice(id, `${reason}; libsql-server may still execute it; restart the server`)
    }
    onNotice(id, `${reason}: restarting libsql-server`)
    this.#restarting ??= this.#restartAll().finally(() => {
      this.#restarting = null
    })
    await this.#restarting
  }

  async #restartAll(): Promise<void> {
    // a replica would forward unfinished requests to the primary again
    const replicas = await this.#replicas.listStarted()
    await Promise.all([this.#upstream, ...replicas].map((server) => server.restart()))
  }

  /**
   * Starts the missing replicas in the current locations, and removes all others; one change after another.
   * @throws ReplicaStartError if one does not start
   */
  async changeReplicas(getLocations: () => readonly string[]): Promise<void> {
    await this.#replicas.change(getLocations)
  }

  /** Blocks writes until settings are applied again, and aborts all client requests in flight. */
  async freeze(id: DatabaseId, blockReason: string): Promise<void> {
    const settings = this.#settings.get(id) ?? DEFAULT_SETTINGS
    await this.applySettings(id, { ...settings, blockWrites: true, blockReason })
    // aborts requests that were accepted before the block
    await this.#upstream.restart()
  }

  async findHealthProblem(id: DatabaseId, location: string | null = null): Promise<string | null> {
    if (location === null) {
      const problem = await this.#writes.findHealthProblem(id)
      return problem ?? (await probeDatabase(() => this.#internal.fetchResult(id, PROBE)))
    }
    if (this.#options.conditions.isDown(location)) return describeOutage(location)
    const replica = await this.#replicas.get(location).catch((error: Error) => error.message)
    if (typeof replica === 'string') return replica
    const problem = await replica.findHealthProblem()
    return problem === null ? null : `the replica in ${location} ${problem}`
  }

  async abortRequests(): Promise<void> {
    await this.#running.abortAll()
  }

  async sampleUsage(id: DatabaseId): Promise<UsageSample> {
    const base = await this.#getBaseCounts(id)
    const stats = await this.#upstream.withAdmin((admin) => admin.stats(id))
    return {
      epoch: this.#epoch,
      rowsRead: stats.rows_read_count - base.rowsRead,
      rowsWritten: stats.rows_written_count - base.rowsWritten,
      storageBytes: stats.storage_bytes_used,
    }
  }

  /** Returns the counts to subtract: zero for a remote server, because its start time is unknown. */
  async #getBaseCounts(id: DatabaseId): Promise<Counts> {
    if (this.#options.remote !== undefined) return { rowsRead: 0, rowsWritten: 0 }
    const existing = this.#baseCounts.get(id)
    if (existing !== undefined) return await existing
    if (!(await this.#hasFiles(id))) throw new MissingFileError()
    const reading = this.#upstream
      .withAdmin((admin) => admin.stats(id))
      .then((stats) => ({ rowsRead: stats.rows_read_count, rowsWritten: stats.rows_written_count }))
    this.#baseCounts.set(id, reading)
    reading.catch(() => {
      // retried on the next request
      if (this.#baseCounts.get(id) === reading) this.#baseCounts.delete(id)
    })
    return await reading
  }

  async topQueries(id: DatabaseId): Promise<readonly QueryUsage[]> {
    const { top_queries: queries = [] } = await this.#upstream.withAdmin((admin) => admin.stats(id))
    return queries.map(({ query, rows_read, rows_written }) => ({
      query,
      rowsRead: rows_read,
      rowsWritten: rows_written,
    }))
  }

  async handle(
    id: DatabaseId,
    request: ServiceRequest,
    location: string | null = null,
  ): Promise<ServiceResponse> {
    const running = this.#running.begin(id, request.controller)
    try {
      return running.respond(await this.#respond(id, request, running, location))
    } catch (error) {
      if (running.isAborted) return revokedResponse()
      if (error instanceof MissingFileError) throw error
      if (location !== null && !this.#isReplicaLocation(location)) return errorResponse(502, REMOVED_MESSAGE)
      if (error instanceof BackendError) return errorResponse(400, error.message)
      if (error instanceof ReplicaStartError) return errorResponse(503, error.message)
      if (error instanceof JsonShapeError) return textResponse(400, 'text/plain', error.message)
      if (error instanceof PipelineFailure) return textResponse(error.status, error.contentType, error.body)
      if (isConnectionError(error)) return errorResponse(502, CLOSED_MESSAGE)
      throw error
    } finally {
      running.release()
    }
  }

  // oxlint-disable-next-line max-params
  async #respond(
    id: DatabaseId,
    request: ServiceRequest,
    running: RunningRequest,
    location: string | null,
  ): Promise<ServiceResponse> {
    const permissions = this.#tokens.getPermissions(request, id)
    const getRules = () => this.#getRules(id, request)
    // only the primary serves migration jobs, dumps and change streams; replicas apply blocks late
    if (location !== null && request.method === 'POST' && this.#settings.get(id)?.blockReads !== true) {
      if (this.#options.conditions.isDown(location)) return errorResponse(503, describeOutage(location))
      if (!this.#isReplicaLocation(location)) return errorResponse(404, `Namespace \`${id}\` doesn't exist`)
      const replica = await this.#replicas.get(location)
      if (replica.detectExit())
        this.#options.onNotice(id, `the replica in ${location} has exited; restarting it`)
      if (!(await replica.stillBlocks(id)))
        return await replica.streams.handle(id, { request, running }, getRules)
    }
    if (this.#upstream.detectExit()) this.#options.onNotice(id, 'libsql-server has exited; restarting it')
    if (!this.#upstream.isReady) await this.#upstream.ensureRunning()
    // read before the counts include this request
    await this.#getBaseCounts(id).catch((error: unknown) => {
      if (error instanceof MissingFileError) throw error
    })
    const settings = this.#settings.get(id) ?? DEFAULT_SETTINGS
    // the server itself does not block these
    const readsAll = request.path === '/dump' || isExportRoute(request.path)
    if (settings.blockReads && (readsAll || request.path === '/beta/listen'))
      return errorResponse(403, describeBlock(settings))
    if (isExportRoute(request.path))
      return await buildExportResponse(request, id, this.#runningExports, () => this.#export(id))
    if (request.method !== 'POST')
      return await this.#handleWithoutBody({ id, request, permissions, signal: running.signal })
    return await this.#streams.handle(id, { request, running }, getRules)
  }

  /** Whether the group still has a replica in a location: a request may have been addressed to it before it was removed. */
  #isReplicaLocation(location: string): boolean {
    return this.#options.isReplicaLocation?.(location) ?? true
  }

  #getRules(id: DatabaseId, request: ServiceRequest): StreamRules {
    const permissions = this.#tokens.getPermissions(request, id)
    const settings = this.#settings.get(id) ?? DEFAULT_SETTINGS
    const { isSchema, blockReads, blockWrites } = settings
    return {
      permissions,
      blockReads,
      blockWrites,
      isSchema,
      migrationRejection: isSchema && (blockReads || blockWrites) ? describeBlock(settings) : null,
      // does not reveal the ids of other databases
      resolveName: (name) => {
        const target = this.#options.resolveName?.(id, name)
        return target !== undefined && this.#filterAttachable(id, permissions.attach).includes(target)
          ? target
          : undefined
      },
    }
  }

  async abandon(): Promise<void> {
    this.#writes.close()
    const replicas = await this.#replicas.listStarted()
    await Promise.all([...replicas.map((replica) => replica.abandon()), this.#upstream.abandon()])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#writes.close()
    const replicas = await this.#replicas.listStarted()
    await Promise.all([...replicas.map((replica) => replica[Symbol.asyncDispose]()), this.#upstream.close()])
  }

  #buildConfig(settings: DatabaseSettings): SqldNamespaceConfig {
    const { sizeLimitBytes, allowAttach, blockReads, blockWrites, blockReason } = settings
    return {
      jwt_key: this.#getKeys(settings),
      max_db_size: sizeLimitBytes === null ? NO_SIZE_LIMIT : String(sizeLimitBytes),
      allow_attach: allowAttach,
      block_reads: blockReads,
      block_writes: blockWrites,
      block_reason: blockReason ?? undefined,
    }
  }

  /** For a remote server, includes the keys of client tokens, because clients may send requests to its replicas directly. */
  #getKeys({ keys }: DatabaseSettings): string | undefined {
    const { isOpen, remote, controlKey } = this.#options
    // undefined selects the server's key: a database with its own key would reject requests that its replicas forward
    if (remote === undefined) return undefined
    return isOpen ? undefined : [...keys, controlKey.publicPem].join('')
  }

  #storeSettings(id: DatabaseId, settings: DatabaseSettings): void {
    this.#settings.set(id, settings)
    if (settings.allowAttach && !settings.blockReads) this.#attachable.add(id)
    else this.#attachable.delete(id)
    this.#tokens.configure(id, settings.keys)
  }

  /** Handles routes without a body. */
  async #handleWithoutBody(call: ClientRequest): Promise<ServiceResponse> {
    const response = await this.#upstream.send(call, null)
    const { method, path } = call.request
    if (method !== 'GET' || !path.startsWith('/v1/jobs/') || response.status !== 200)
      return await buildClientResponse(response)
    // the server omits the error of a job that has not failed
    const { job_id, status, error = null, ...rest } = JSON.parse((await readBody(response)).toString('utf8'))
    return textResponse(200, 'application/json', JSON.stringify({ job_id, status, error, ...rest }))
  }

  /**
   * Returns the databases that a sender may attach now: readable, and in the same group. The server does not check this itself.
   */
  #filterAttachable(to: DatabaseId, allowed: SenderPermissions['attach']): readonly string[] {
    const ids = (allowed === 'all' ? [...this.#attachable] : allowed) as readonly DatabaseId[]
    const { resolveName = (_, id) => id as DatabaseId } = this.#options
    return ids.filter((id) => {
      const isBlocked = this.#settings.has(id) && !this.#attachable.has(id)
      return !isBlocked && resolveName(to, id) === id
    })
  }
}

function describeOutage(location: string): string {
  return `the replica in ${location} is down`
}

function describeBlock({ blockReason }: DatabaseSettings): string {
  return `Operation was blocked${blockReason === null ? '' : `: ${blockReason}`}`
}

/** Converts the source of a database to the admin API's format. */
function namespaceSource(source: Exclude<DatabaseSource, { type: 'fork' | 'file' }>): SqldNamespaceSource {
  switch (source.type) {
    case 'empty':
      return {}
    case 'schema':
      return { shared_schema: true }
    case 'schema-child':
      return { shared_schema_name: source.parent }
    default:
      return source satisfies never
  }
}
