import { type ReachableDatabases, TokenCheck } from '@batonsql/server-common/auth'
import {
  BackendError,
  buildExportResponse,
  type DatabaseBackend,
  type DatabaseId,
  type DatabaseSettings,
  type DatabaseSource,
  describeBlock,
  isExportRoute,
  MissingFileError,
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
import { Namespaces } from './namespaces.ts'
import { readBody } from './process/exchange.ts'
import { InternalRequests } from './process/internal-requests.ts'
import { isConnectionError, Upstream, type UpstreamOptions } from './process/upstream.ts'
import type { SenderPermissions } from './process/upstream-tokens.ts'
import { ReplicaSet } from './replicas/replica-set.ts'
import { SettingsTable } from './settings-table.ts'
import { type ClientRequest, StreamRequests, type StreamRules } from './stream-requests.ts'
import { UsageCounts } from './usage-counts.ts'
import type { StallTimes } from './writes/stall-detector.ts'
import { WriteService } from './writes/write-service.ts'

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

const REMOVED_MESSAGE =
  'the replica was removed while this request was running; it is unknown whether the request was applied'
const CLOSED_MESSAGE =
  'libsql-server exited, or closed the connection, while running this request; it is unknown whether the request was applied'

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
  readonly #namespaces: Namespaces
  readonly #usage: UsageCounts
  readonly #settings = new SettingsTable()
  readonly #running = new RunningRequests()
  readonly #replicas: ReplicaSet
  #restarting: Promise<void> | null = null
  readonly #runningExports: RunningExports = new Map()

  constructor(options: SqldBackendOptions) {
    this.#options = options
    this.#tokens = new TokenCheck(options.isOpen, options.reachable)
    this.#upstream = new Upstream(options, {
      onStart: () => this.#onStart(),
      filterAttachable: (to, allowed) => this.#filterAttachable(to, allowed),
    })
    this.#internal = new InternalRequests(this.#upstream)
    this.#namespaces = new Namespaces(this.#upstream, options)
    this.#usage = new UsageCounts(this.#upstream, {
      isRemote: options.remote !== undefined,
      hasFile: (id) => this.#namespaces.hasFile(id),
    })
    const { remote, onNotice, stallTimes, ...shared } = options
    this.#writes = new WriteService(this.#upstream, this.#internal, {
      getFile: remote === undefined ? (id) => this.#namespaces.getFile(id) : null,
      beforeWrite: (id) => this.#usage.begin(id),
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
    await this.#namespaces.removeTemporaryFiles()
    const version = await this.#upstream.start()
    if (this.#options.remote !== undefined) await this.#namespaces.checkSeparate(this.#internal)
    return version
  }

  /** Called when the server has started, which has ended all streams. */
  #onStart(): void {
    this.#usage.restart()
    this.#writes.forgetAllStreams()
  }

  /** Does nothing: libsql-server has resumed its migrations when it started. */
  resume(): void {}

  async setAsideUnregistered(registeredIds: ReadonlySet<DatabaseId>): Promise<readonly DatabaseId[]> {
    return await this.#namespaces.setAsideUnregistered(registeredIds)
  }

  async create(id: DatabaseId, source: DatabaseSource, settings: DatabaseSettings): Promise<void> {
    await this.#namespaces.create(id, source, settings)
    this.#storeSettings(id, settings)
  }

  async exportTo(id: DatabaseId, file: string): Promise<void> {
    await this.#namespaces.exportTo(id, file)
  }

  async applySettings(id: DatabaseId, settings: DatabaseSettings): Promise<boolean> {
    const wasBlocked = this.#settings.get(id).blockReads
    this.#storeSettings(id, settings)
    if (wasBlocked && !settings.blockReads) this.#replicas.onUnblock(id)
    const exists = await this.#namespaces.configure(id, () => this.#settings.get(id))
    if (!this.#settings.isAttachable(id)) await this.#running.abortAttaching(id)
    return exists
  }

  async remove(id: DatabaseId): Promise<void> {
    this.#tokens.forget(id)
    this.#running.abort(id)
    // without its settings, the database cannot be attached
    this.#settings.delete(id)
    await this.#running.abortAttaching(id)
    // open streams would occupy slots of the process until they expire
    await Promise.all(this.#allStreams.map((requests) => requests.closeStreams(id, 'all')))
    this.#usage.forget(id)
    this.#writes.remove(id)
    await this.#namespaces.remove(id)
    for (const replica of this.#replicas.started) await replica.remove(id)
  }

  /** The streams of the server and of its replicas. A replica that is still starting has none. */
  get #allStreams(): readonly StreamRequests[] {
    return [this.#streams, ...this.#replicas.started.map(({ streams }) => streams)]
  }

  async revokeAccess(id: DatabaseId, access: RevokedAccess): Promise<void> {
    const streams = this.#allStreams
    const closed = Promise.all(streams.map((requests) => requests.closeStreams(id, access)))
    const remaining = await this.#running.revoke(id, access)
    for (const request of remaining) request.onForcedAbort()
    await closed
    const mayStillWrite = remaining.some((request) => request.mayWrite()) || this.#writes.isAbandoned(id)
    if (mayStillWrite) await this.#restartAfterRevocation(id)
  }

  /** Restarts the server, which would continue a running batch even after its connection is closed. */
  async #restartAfterRevocation(id: DatabaseId): Promise<void> {
    const { remote, onNotice } = this.#options
    const reason = 'a request that may write was still running after its access was revoked'
    if (remote !== undefined) {
      this.#writes.forgetAbandoned()
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
    const servers = [this.#upstream, ...this.#replicas.started.map(({ upstream }) => upstream)]
    await Promise.all(servers.map((server) => server.restart()))
  }

  /**
   * Starts the missing replicas in the current locations, and removes all others; one change after another.
   * @throws ReplicaStartError if one does not start
   */
  async changeReplicas(getLocations: () => readonly string[]): Promise<void> {
    await this.#replicas.change(getLocations)
  }

  /**
   * Blocks writes to a database until its settings are applied again. Restarts the server, which aborts the requests in flight to
   * all databases of the group.
   */
  async freeze(id: DatabaseId, blockReason: string): Promise<void> {
    await this.applySettings(id, { ...this.#settings.get(id), blockWrites: true, blockReason })
    // a write that was accepted before the block may still be running
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
    return await this.#usage.sample(id)
  }

  async topQueries(id: DatabaseId): Promise<readonly QueryUsage[]> {
    return await this.#usage.topQueries(id)
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
      if (error instanceof BackendError) return errorResponse(400, error.message)
      if (error instanceof ReplicaStartError) return errorResponse(503, error.message)
      if (error instanceof JsonShapeError) return textResponse(400, 'text/plain', error.message)
      if (error instanceof PipelineFailure) return textResponse(error.status, error.contentType, error.body)
      if (location !== null && !this.#isReplicaLocation(location)) return errorResponse(502, REMOVED_MESSAGE)
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
    if (location !== null && request.method === 'POST' && !this.#settings.get(id).blockReads) {
      if (this.#options.conditions.isDown(location)) return errorResponse(503, describeOutage(location))
      if (!this.#isReplicaLocation(location)) return errorResponse(404, `Namespace \`${id}\` doesn't exist`)
      const replica = await this.#replicas.get(location)
      if (replica.upstream.detectExit())
        this.#options.onNotice(id, `the replica in ${location} has exited; restarting it`)
      if (!(await replica.mayBlock(id, () => this.#settings.get(id))))
        return await replica.streams.handle(id, { request, running }, getRules)
    }
    if (this.#upstream.detectExit()) this.#options.onNotice(id, 'libsql-server has exited; restarting it')
    if (!this.#upstream.isReady) await this.#upstream.ensureRunning()
    await this.#usage.begin(id)
    const { blockReads, blockReason } = this.#settings.get(id)
    // the server itself does not block these
    const readsAll = request.path === '/dump' || isExportRoute(request.path)
    if (blockReads && (readsAll || request.path === '/beta/listen'))
      return errorResponse(403, describeBlock(blockReason))
    if (isExportRoute(request.path))
      return await buildExportResponse(request, id, this.#runningExports, () => this.#namespaces.export(id))
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
    const { isSchema, blockReads, blockWrites, blockReason } = this.#settings.get(id)
    return {
      permissions,
      blockReads,
      blockWrites,
      isSchema,
      migrationRejection: isSchema && (blockReads || blockWrites) ? describeBlock(blockReason) : null,
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
    const replicas = await this.#replicas.waitUntilStarted()
    await Promise.all([...replicas.map(({ upstream }) => upstream.abandon()), this.#upstream.abandon()])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#writes.close()
    const replicas = await this.#replicas.waitUntilStarted()
    await Promise.all([...replicas.map((replica) => replica[Symbol.asyncDispose]()), this.#upstream.close()])
  }

  #storeSettings(id: DatabaseId, settings: DatabaseSettings): void {
    this.#settings.set(id, settings)
    this.#tokens.configure(id, settings.keys)
  }

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
   * Returns the databases that a sender may attach now: those that permit it, are readable, and in the same group. The server
   * does not check the last two.
   */
  #filterAttachable(to: DatabaseId, allowed: SenderPermissions['attach']): readonly string[] {
    const ids = allowed === 'all' ? this.#settings.listAttachable() : (allowed as readonly DatabaseId[])
    const { resolveName = (_, id) => id as DatabaseId } = this.#options
    return ids.filter((id) => this.#settings.isAttachable(id) && resolveName(to, id) === id)
  }
}

function describeOutage(location: string): string {
  return `the replica in ${location} is down`
}
