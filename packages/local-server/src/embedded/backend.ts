import { mkdirSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type CallWork,
  forbiddenError,
  NO_ATTACH_PERMISSION,
  NOT_ATTACHABLE,
  type Reply,
  releaseFile,
  TableAuthorizer,
  toText,
  type WorkerRequest,
} from '@batonsql/embedded-engine'
import { type ReachableDatabases, TokenCheck } from '@batonsql/server-common/auth'
import {
  BackendError,
  buildExportResponse,
  copyDatabaseFile,
  type DatabaseBackend,
  type DatabaseId,
  type DatabaseSettings,
  type DatabaseSource,
  describeBlock,
  type ExportedFile,
  getFileSize,
  hasDatabaseFile,
  isExportRoute,
  MissingFileError,
  PROBE,
  probeDatabase,
  type QueryUsage,
  type RevokedAccess,
  type RunningExports,
  type RunningRequest,
  RunningRequests,
  revokedBeforeStartResponse,
  revokedResponse,
  SMALL_FILE_BYTES,
  setAside,
  type UsageSample,
} from '@batonsql/server-common/backend'
import {
  type Dialect,
  decodeCursorBody,
  decodePipelineBody,
  INTERNAL_PERMISSIONS,
  JsonShapeError,
  PipelineFailure,
  readBodyText,
} from '@batonsql/server-common/hrana'
import {
  errorResponse,
  type ServiceRequest,
  type ServiceResponse,
  textResponse,
} from '@batonsql/server-common/http'
import { PACKAGE_VERSION } from '../server/package-version.ts'
import { createExport } from './database-exports.ts'
import { DATABASE_FILE, ensureDatabaseFile } from './empty-database.ts'
import { mayWrite } from './may-write.ts'
import { readDumpQuery, readListenQuery } from './query-parameters.ts'
import { retryUnlessBegun } from './retry-unless-begun.ts'
import { jobResponse } from './schema/job-responses.ts'
import { SchemaMigrations } from './schema/schema-migrations.ts'
import { type Job, SchemaStore } from './schema/schema-store.ts'
import { type ClientCall, StreamCalls } from './stream-calls.ts'
import { StreamTable } from './stream-table.ts'
import { UsageCounters } from './usage-counters.ts'
import { WorkerPool } from './worker-pool.ts'

export interface EmbeddedOptions {
  readonly directory: string
  /** Whether anyone has full access without a token. */
  readonly isOpen: boolean
  /** Whether acknowledged writes must survive a power failure. False for a temporary directory. @default true */
  readonly isDurable?: boolean
  /** Null to imitate libsql-server, except that no statement is silently dropped. @default null */
  readonly dialect?: Dialect | null
  /** Resolves the name of a database that a statement on another one attaches. By default, names are ids. */
  readonly resolveName?: (from: DatabaseId, name: string) => DatabaseId | undefined
  /** Restricts the databases that a token may attach. By default, there is no restriction. */
  readonly reachable?: ReachableDatabases | undefined
}

/** Serves the database API with the embedded engine: manages streams and permissions, and runs statements in worker threads. */
export class EmbeddedBackend implements DatabaseBackend {
  readonly kind = 'embedded' as const
  readonly hasTablePermissions = true
  readonly #directory: string
  readonly #isDurable: boolean
  readonly #tokens: TokenCheck
  readonly #workers: WorkerPool
  readonly #streams: StreamTable
  readonly #calls: StreamCalls
  readonly #dialect: Dialect | null
  readonly #resolveName: (from: DatabaseId, name: string) => DatabaseId | undefined
  readonly #schemas: SchemaStore
  readonly #migrations: SchemaMigrations
  /** Number of the last internal stream: negative, so that it differs from clients' streams, whose limit does not include it. */
  #lastInternalStream = 0
  readonly #runningExports: RunningExports = new Map()
  readonly #running = new RunningRequests()
  readonly #usage = new UsageCounters()

  constructor({
    directory,
    isOpen,
    isDurable = true,
    dialect = null,
    resolveName = (_, name) => name as DatabaseId,
    reachable,
  }: EmbeddedOptions) {
    this.#resolveName = resolveName
    this.#dialect = dialect
    this.#directory = directory
    this.#isDurable = isDurable
    this.#tokens = new TokenCheck(isOpen, reachable)
    this.#streams = new StreamTable((id, stream) => this.#workers.find(id)?.closeStream(stream))
    this.#workers = new WorkerPool({
      getPath: (id) => this.#getFile(id),
      getRole: (id) => this.#schemas.getRole(id),
      isDurable,
      dialect,
      isIdle: (id) => this.#streams.countOpen(id) === 0,
      onRequest: (id, request) => this.#handleWorkerRequest(id, request),
      onClosed: (id) => this.#streams.closeStreams(id),
      onUsage: (id, usage) => this.#usage.add(id, usage),
    })
    this.#schemas = new SchemaStore(directory)
    this.#migrations = new SchemaMigrations(this.#schemas, {
      run: (id, job, isDryRun) => this.#migrate(id, job, isDryRun),
      block: (id, isBlocked) => this.#workers.block(id, isBlocked),
    })
    this.#calls = new StreamCalls({
      workers: this.#workers,
      streams: this.#streams,
      dialect,
      mayAttach: (from, target, allowed) =>
        (allowed === 'all' || allowed.includes(target)) &&
        resolveName(from, target) === target &&
        this.#isAttachable(target),
    })
  }

  async setAsideUnregistered(registeredIds: ReadonlySet<DatabaseId>): Promise<readonly DatabaseId[]> {
    const moved = await setAside(this.#directory, registeredIds)
    // a killed process has left the file marked as in use, which keeps other programs from opening it
    for (const { folder } of moved) releaseFile(join(folder, DATABASE_FILE))
    return moved.map(({ id }) => id)
  }

  async start(): Promise<string> {
    mkdirSync(this.#directory, { recursive: true })
    const sqliteVersion = await this.#workers.prepare()
    await this.#schemas.load()
    // files that a killed process has left
    await rm(this.#exportsFolder, { recursive: true, force: true })
    return `baton-local ${PACKAGE_VERSION} (libSQL, SQLite ${sqliteVersion})`
  }

  resume(): void {
    this.#migrations.resume()
  }

  async create(id: DatabaseId, source: DatabaseSource, settings: DatabaseSettings): Promise<void> {
    if (source.type !== 'schema-child') return await this.#create(id, source, settings)
    const { parent } = source
    await this.#migrations.enqueue(async () => {
      if (this.#schemas.getRole(parent) !== 'schema')
        throw new BackendError(`the database \`${parent}\` is not a schema database`)
      await this.#migrations.finish(parent)
      await this.#create(id, source, settings)
      await this.#schemas.addChild(id, parent)
    })
  }

  async #create(id: DatabaseId, source: DatabaseSource, settings: DatabaseSettings): Promise<void> {
    if (source.type === 'fork') this.#checkCanBeCopied(source.from)
    if (source.type === 'schema-child') this.#checkCanBeCopied(source.parent)
    if (source.type === 'schema') await this.#schemas.addSchema(id)
    mkdirSync(this.#getFolder(id), { recursive: true })
    if (source.type === 'file') await copyDatabaseFile(source.file, this.#getFile(id))
    if (source.type === 'fork') await this.#snapshot(source.from, this.#getFile(id))
    if (source.type === 'schema-child') await this.#snapshot(source.parent, this.#getFile(id))
    await this.#workers.completeCopy(id, this.#getFile(id))
    await ensureDatabaseFile(this.#getFile(id), this.#isDurable)
    this.#configure(id, settings)
  }

  /** Checks that a database may be copied, which reads all of its rows. @throws BackendError if its reads are blocked */
  #checkCanBeCopied(id: DatabaseId): void {
    const rejection = this.#findReadRejection(id)
    if (rejection !== null) throw new BackendError(rejection)
  }

  async exportTo(id: DatabaseId, file: string): Promise<void> {
    const copy = await this.#export(id)
    try {
      await copyDatabaseFile(copy.path, file)
      await ensureDatabaseFile(file, this.#isDurable)
    } finally {
      await copy.remove()
    }
  }

  async applySettings(id: DatabaseId, settings: DatabaseSettings): Promise<boolean> {
    this.#configure(id, settings)
    if (!this.#isAttachable(id)) await this.#abortAttachingRequests(id)
    return hasDatabaseFile(this.#getFile(id))
  }

  async remove(id: DatabaseId): Promise<void> {
    if (this.#schemas.getRole(id) !== 'plain')
      await this.#migrations.enqueue(async () => {
        if (this.#schemas.getChildren(id).length > 0)
          // the message is that of libsql-server
          throw new BackendError(`cannot delete \`${id}\` because databases are still refering to it`)
        await this.#schemas.remove(id)
      })
    this.#tokens.forget(id)
    this.#running.abort(id)
    const closing = this.#workers.forget(id)
    // without its settings, the database cannot be attached
    await this.#abortAttachingRequests(id)
    await closing
    this.#usage.forget(id)
    const isSmall = getFileSize(this.#getFile(id)) < SMALL_FILE_BYTES
    const options = { recursive: true, force: true }
    if (isSmall) rmSync(this.#getFolder(id), options)
    else await rm(this.#getFolder(id), options)
  }

  async revokeAccess(id: DatabaseId, access: RevokedAccess): Promise<void> {
    if (access === 'all') this.#workers.closeFeed(id)
    for (const stream of this.#streams.closeStreams(id, access)) this.#workers.find(id)?.closeStream(stream)
    const remaining = await this.#running.revoke(id, access)
    if (remaining.length > 0) await this.#workers.find(id)?.shutDown()
  }

  /** Aborts the requests to other databases that have this one attached, and closes their streams. */
  async #abortAttachingRequests(id: DatabaseId): Promise<void> {
    const requestsEnded = this.#running.abortAttaching(id)
    for (const { database, stream } of this.#streams.closeAttaching(id))
      this.#workers.find(database)?.closeStream(stream)
    await requestsEnded
  }

  async abandon(): Promise<void> {
    this.#migrations.close()
    await this.#workers.abandon()
  }

  async abortRequests(): Promise<void> {
    await this.#running.abortAll()
  }

  async sampleUsage(id: DatabaseId): Promise<UsageSample> {
    const path = this.#getFile(id)
    // the WAL ends with `.wal` while the database is open here, and with `-wal` if it could not be checkpointed afterwards
    const storageBytes = getFileSize(path) + getFileSize(`${path}.wal`) + getFileSize(`${path}-wal`)
    return { epoch: this.#usage.epoch, ...this.#usage.getTotals(id), storageBytes }
  }

  async findHealthProblem(id: DatabaseId): Promise<string | null> {
    const statement = { sql: PROBE, sqlId: null, args: [], namedArgs: [] }
    const requests = [{ type: 'execute', statement }, { type: 'close' }] as const
    return await probeDatabase(() => this.#runInternal(id, { type: 'pipeline', requests, version: 3 }))
  }

  async topQueries(id: DatabaseId): Promise<readonly QueryUsage[]> {
    return this.#usage.getTopQueries(id)
  }

  async handle(id: DatabaseId, request: ServiceRequest): Promise<ServiceResponse> {
    const running = this.#running.begin(id, request.controller)
    try {
      const response = await this.#respond(id, request, running)
      // a change stream is ended by `closeFeed` or by its client, not aborted with other requests
      return request.path === '/beta/listen' ? response : running.respond(response)
    } catch (error) {
      if (running.isAborted) return revokedResponse()
      if (error instanceof JsonShapeError) return textResponse(400, 'text/plain', error.message)
      if (error instanceof PipelineFailure) return this.#toResponse(error)
      throw error
    } finally {
      running.release()
    }
  }

  async #respond(id: DatabaseId, request: ServiceRequest, running: RunningRequest): Promise<ServiceResponse> {
    const permissions = this.#tokens.getPermissions(request, id)
    if (request.path.startsWith('/v1/jobs')) return jobResponse(this.#schemas, id, request.path)
    const { signal } = running
    let call: ClientCall = { id, permissions, signal, running }
    if (request.path === '/dump') return await retryUnlessBegun(null, () => this.#dump(call, request.query))
    if (request.path === '/beta/listen') return this.#listen(call, request)
    if (isExportRoute(request.path)) {
      checkReadsAll(call)
      this.#checkNotBlocked(id)
      return await buildExportResponse(request, id, this.#runningExports, () => this.#export(id, signal))
    }
    running.isReceiving = true
    const text = await readBodyText(request.body)
    running.isReceiving = false
    // checked again: the token may have been revoked while the body was read
    call = { ...call, permissions: this.#tokens.getPermissions(request, id) }
    if (running.isRevoked) return revokedBeforeStartResponse()
    if (request.path === '/v3/cursor') {
      const body = decodeCursorBody(text)
      const requests = [{ type: 'batch', steps: body.steps }] as const
      running.mayWrite = () => call.permissions.write && mayWrite(requests, body.baton !== null)
      return await retryUnlessBegun(body.baton, () => this.#calls.cursor(call, body))
    }
    const body = decodePipelineBody(text)
    running.mayWrite = () => call.permissions.write && mayWrite(body.requests, body.baton !== null)
    const version = request.path.startsWith('/v2') ? 2 : 3
    return await retryUnlessBegun(body.baton, () => this.#calls.pipeline(call, body, version))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#migrations.close()
    this.#streams.clear()
    await this.#workers.close()
  }

  #toResponse({ status, contentType, body, batonError }: PipelineFailure): ServiceResponse {
    if (batonError !== null && this.#dialect === 'cloud') return errorResponse(404, batonError)
    return textResponse(status, contentType, body)
  }

  async #dump(call: ClientCall, query: string): Promise<ServiceResponse> {
    const { preserveRowIds } = readDumpQuery(query)
    if (this.#schemas.getRole(call.id) === 'schema') return errorResponse(400, 'database is not a primary')
    checkReadsAll(call)
    this.#checkNotBlocked(call.id)
    return await this.#calls.dump(call, preserveRowIds)
  }

  #listen({ id, permissions, signal }: ClientCall, { query }: ServiceRequest): ServiceResponse {
    const subscription = readListenQuery(query)
    const { tables } = permissions
    this.#checkNotBlocked(id)
    if (tables !== null && !new TableAuthorizer(tables).allows('data_read', subscription.table))
      throw forbiddenError('Read', id)
    const body = this.#workers.getFeed(id).listen(subscription)
    signal.addEventListener('abort', () => body.destroy(), { once: true })
    if (signal.aborted) body.destroy()
    return {
      status: 200,
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' },
      body,
    }
  }

  /** Handles a worker's request that concerns other databases. */
  async #handleWorkerRequest(id: DatabaseId, request: WorkerRequest): Promise<Reply> {
    try {
      if (request.type === 'migrate') return await this.#migrations.migrate(id, request.program)
      const { name, allowed, path } = request
      const target = this.#resolveName(id, name)
      if (allowed !== 'all' && !allowed.includes(target ?? name)) return NO_ATTACH_PERMISSION
      if (target === undefined || !this.#isAttachable(target)) return NOT_ATTACHABLE
      // recorded before the copy is made, so that the stream is closed if the database can no longer be attached
      this.#streams.attach(request.stream, target)
      await this.#snapshot(target, path)
      return this.#isAttachable(target) ? null : NOT_ATTACHABLE
    } catch (error) {
      return { internalError: error instanceof Error ? error.message : String(error) }
    }
  }

  #isAttachable(id: DatabaseId): boolean {
    const { allowAttach = false, blockReads = false } = this.#workers.getSettings(id) ?? {}
    return allowAttach && !blockReads
  }

  /** Checks requests that read data without a statement. @throws PipelineFailure with status 403 */
  #checkNotBlocked(id: DatabaseId): void {
    const rejection = this.#findReadRejection(id)
    if (rejection !== null) throw PipelineFailure.service(403, rejection)
  }

  #findReadRejection(id: DatabaseId): string | null {
    const { blockReads = false, blockReason = null } = this.#workers.getSettings(id) ?? {}
    return blockReads ? describeBlock(blockReason) : null
  }

  async #migrate(id: DatabaseId, { number: job, program }: Job, isDryRun: boolean): Promise<string | null> {
    try {
      return (await this.#runInternal(id, { type: 'migration', job, program, isDryRun })) || null
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  }

  /** Copies a database and its WAL to a file. @throws MissingFileError also if the file was removed while it was open */
  async #snapshot(id: DatabaseId, path: string, signal?: AbortSignal): Promise<void> {
    if (!hasDatabaseFile(this.#getFile(id))) throw new MissingFileError()
    await this.#runInternal(id, { type: 'snapshot', path }, signal)
  }

  /** Exports a database to a temporary file. @param signal aborts the snapshot, but not the work that completes the copy */
  async #export(id: DatabaseId, signal?: AbortSignal): Promise<ExportedFile> {
    return await createExport(this.#exportsFolder, {
      snapshot: (path) => this.#snapshot(id, path, signal),
      complete: (path) => this.#workers.completeCopy(id, path),
    })
  }

  get #exportsFolder(): string {
    return join(this.#directory, 'exports')
  }

  /** Runs work on a new internal stream. @returns its output @throws Error */
  async #runInternal(
    id: DatabaseId,
    work: CallWork,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<string> {
    const outcome = await retryUnlessBegun(null, async () => {
      const worker = await this.#workers.get(id)
      this.#lastInternalStream -= 1
      const stream = this.#lastInternalStream
      return await worker.run({ id, stream, permissions: INTERNAL_PERMISSIONS, signal }, work)
    })
    if (outcome.type === 'failure') throw new Error(toSentence(outcome.body))
    return toText(outcome.text)
  }

  #configure(id: DatabaseId, settings: DatabaseSettings): void {
    this.#tokens.configure(id, settings.keys)
    this.#workers.configure(id, settings)
  }

  #getFile(id: DatabaseId): string {
    return join(this.#getFolder(id), DATABASE_FILE)
  }

  #getFolder(id: DatabaseId): string {
    return join(this.#directory, id)
  }
}

/** Checks that a call may read all tables. @throws PipelineFailure */
function checkReadsAll({ id, permissions: { tables } }: ClientCall): void {
  if (tables !== null && !new TableAuthorizer(tables).mayReadAll) throw forbiddenError('Read', id)
}

/** Returns the reason of a failure from the body that a client would receive. */
const toSentence = (body: string): string =>
  /^\{"error":"Internal Error: `(?:Error: )?(.*)`"\}$/s.exec(body)?.[1] ?? body
