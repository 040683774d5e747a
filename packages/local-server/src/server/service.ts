import { EventEmitter } from 'node:events'
import {
  ControlPlane,
  claimBackend,
  type DatabaseConfiguration,
  type DatabaseRow,
  DEFAULT_GROUP,
  type GroupRow,
  getReplicaLocations,
  isLocation,
  LOCATIONS,
  mintDatabaseToken,
  NEW_CONFIGURATION,
  parseExpiration,
  parseSizeLimit,
  type SnapshotRow,
  type TokenAuthorization,
} from '@batonsql/control-plane'
import { checkOptions, type RulesOf } from '@batonsql/options'
import { AccessPolicy } from '@batonsql/server-common/auth'
import {
  type DatabaseBackend,
  type DatabaseSource,
  RESERVED_NAMES,
  type ReplicaCondition,
  type ReplicaConditions,
} from '@batonsql/server-common/backend'
import { DirectoryLock, openDirectory, runAll, type TemporaryDirectory } from '@batonsql/server-common/base'
import { errorResponse, type ServiceRequest, type ServiceResponse } from '@batonsql/server-common/http'
import { type BackendSelection, createBackend, type Notices } from './create-backend.ts'
import { DatabaseRouter, DEFAULT_DATABASE } from './database-router.ts'
import type { Failure, FailureKind, FailureOptions } from './failure-options.ts'
import { PACKAGE_VERSION } from './package-version.ts'
import type { ServerLog } from './server-log.ts'

/** Options of a {@link Service}, checked and completed by the public entry points. */
export interface ServiceOptions extends BackendSelection {
  readonly domains: Readonly<Record<string, string>>
  readonly allowOrigins: readonly string[]
  /** Address that the server listens on. */
  readonly listenHost: string
  /** Slug of the organization that the databases belong to. */
  readonly organization: string
  /** Suffix of host names after `<database>-<organization>.`; null for none. */
  readonly domain: string | null
  /** Locations in which the default group has replicas. */
  readonly replicas: readonly string[]
  /** Whether to serve the request inspector. */
  readonly inspector: boolean
  readonly log: ServerLog
  readonly databases: InitialDatabases
  /** Called if another server has locked the data directory. */
  readonly onLost?: ((error: Error) => void) | undefined
}

/** Databases that a server creates at its start unless it has them: their options, or functions that return them. */
export type InitialDatabases = Readonly<
  Record<string, NewDatabaseOptions | (() => NewDatabaseOptions | Promise<NewDatabaseOptions>)>
>

/** Settings of a database that can be changed at any time. */
export interface DatabaseOptions {
  /**
   * Size at which writes fail with `SQLITE_FULL`, such as `256mb` or `1gb`; applies to streams opened afterwards. Null for no limit.
   * @default null
   */
  readonly sizeLimit?: string | null
  /** Rejects all statements with the code `BLOCKED`. @default false */
  readonly blockReads?: boolean
  /** Rejects writes with the code `BLOCKED`. @default false */
  readonly blockWrites?: boolean
  /** Included in the error of a blocked statement. @default null */
  readonly blockReason?: string | null
  /** Allows other databases of the server to attach this one for reading. @default false */
  readonly allowAttach?: boolean
}

/** Initial content and settings of a database. */
export interface NewDatabaseOptions extends DatabaseOptions {
  /**
   * Path of an SQLite file to copy; no other program may write to it while it is copied. The back end `sqld` needs the default page
   * size of 4,096 bytes; a libsql-server given by URL cannot import files.
   */
  readonly fromFile?: string
  /** Name of a database of this server to copy, with its latest committed state, while reads and writes continue. */
  readonly fromDatabase?: string
  /** Name of a snapshot of `fromDatabase` to copy, instead of its latest state. */
  readonly fromSnapshot?: string
  /**
   * Whether other databases can share its schema. If so, changes to this database are also applied to them (see `/v1/jobs`).
   * @default false
   */
  readonly isSchema?: boolean
  /** Name of the database whose schema it shares; the new database begins as a copy of it. */
  readonly schema?: string
  /** Name of its group, whose locations its replicas are in; groups are created with the platform API. @default 'default' */
  readonly group?: string
}

const toConfiguration = ({ sizeLimit, ...settings }: DatabaseOptions): Partial<DatabaseConfiguration> => ({
  ...settings,
  ...(sizeLimit !== undefined && { sizeLimitBytes: parseSizeLimit(sizeLimit ?? '') }),
})

/** A copy of a database in a file of the data directory. */
export interface Snapshot {
  readonly name: string
  /** Size of its file. */
  readonly bytes: number
  /** When its creation began. */
  readonly createdAt: Date
}

const toSnapshot = ({ name, bytes, createdAt }: SnapshotRow): Snapshot => ({
  name,
  bytes,
  createdAt: new Date(createdAt),
})

/** Permissions and lifetime of a new token. */
export interface TokenOptions {
  /** @default 'full-access' */
  readonly authorization?: TokenAuthorization
  /** Lifetime, such as `15m` or `2w1d`, or `never`. @default 'never' */
  readonly expiration?: string
  /** Names of databases that it may attach and read, if they allow it (`allowAttach`). @default [] */
  readonly readAttach?: readonly string[]
}

const canParse = (parse: (text: string) => unknown, value: unknown): boolean => {
  try {
    return typeof value === 'string' && parse(value) !== undefined
  } catch {
    return false
  }
}
const SETTINGS: RulesOf<DatabaseOptions> = {
  sizeLimit: {
    text: 'a size such as 256mb, or null',
    accepts: (size) => size === null || canParse(parseSizeLimit, size),
  },
  blockReads: 'boolean',
  blockWrites: 'boolean',
  blockReason: { text: 'string or null', accepts: (reason) => reason === null || typeof reason === 'string' },
  allowAttach: 'boolean',
}
const NEW_DATABASE: RulesOf<NewDatabaseOptions> = {
  ...SETTINGS,
  fromFile: 'string',
  fromDatabase: 'string',
  fromSnapshot: 'string',
  isSchema: 'boolean',
  schema: 'string',
  group: 'string',
}
const TOKEN_OPTIONS: RulesOf<TokenOptions> = {
  authorization: ['full-access', 'read-only'],
  expiration: {
    text: "a duration such as '15m' or '2w1d', or 'never'",
    accepts: (text) => canParse(parseExpiration, text),
  },
  readAttach: 'object',
}
const LOST_NOTICE =
  'its file is missing or empty: the database responds with 404 until it is deleted and created again'
/** Default slug of the server's organization. */
export const DEFAULT_ORGANIZATION = 'local'

/** The service without a socket: manages databases and tokens, and handles requests. */
export class Service implements AsyncDisposable {
  readonly #parts: ServiceComponents
  readonly #router: DatabaseRouter
  #closing: Promise<void> | null = null
  #isClosed = false
  readonly version: string
  readonly dataDirectory: string

  private constructor(parts: ServiceComponents, version: string) {
    this.#parts = parts
    this.version = version
    this.dataDirectory = parts.directory
    const { controlPlane, access, domains, inspector, notices, log } = parts
    this.#router = new DatabaseRouter({ controlPlane, version, domains, access, inspector, log })
    notices.on('notice', (id, text) => this.#router.reportNotice(id, text))
  }

  static async start(options: ServiceOptions): Promise<Service> {
    const { domains, auth, organization, domain, inspector } = options
    const access = new AccessPolicy(options)
    const { directory, temporary } = await openDirectory(options.dataDirectory, 'baton-')
    // no other server uses a temporary directory
    let onLost: ((error: Error) => void) | null = null
    const lock = temporary ? null : await DirectoryLock.acquire(directory, (error) => onLost?.(error))
    let controlPlane: ControlPlane | null = null
    let backend: DatabaseBackend | null = null
    try {
      controlPlane = await ControlPlane.open({
        directory,
        isDurable: temporary === null,
        organization,
        domain,
        version: PACKAGE_VERSION,
      })
      claimBackend(controlPlane.registry, options.sqld === undefined ? options.backend : 'sqld by URL')
      addReplicas(controlPlane, options.replicas)
      const notices: Notices = new EventEmitter()
      backend = await createBackend(options, directory, controlPlane, notices)
      const version = await controlPlane.start(backend)
      const service = new Service(
        {
          directory,
          temporary,
          lock,
          controlPlane,
          access,
          domains,
          auth,
          inspector,
          notices,
          conditions: options.conditions,
          log: options.log,
        },
        version,
      )
      onLost = (error) => void service.#abandon(error, options)
      for (const { id, state } of controlPlane.registry.databases.rows)
        if (state === 'lost') service.#router.reportNotice(id, LOST_NOTICE)
      await service.#createInitialDatabases(options.databases)
      return service
    } catch (error) {
      await runAll([
        () => backend?.[Symbol.asyncDispose](),
        () => controlPlane?.stop(),
        () => controlPlane?.close(),
        () => lock?.release(),
        () => temporary?.remove(),
      ]).catch(() => {}) // reports the first error instead
      throw error
    }
  }

  async #createInitialDatabases(databases: InitialDatabases): Promise<void> {
    // only on the first start: later, a missing database or group is deliberate
    const needsDefault = this.databaseNames.length === 0 && this.#canCreateDefaultDatabase()
    for (const [name, options] of Object.entries({
      ...(needsDefault && { [DEFAULT_DATABASE]: {} }),
      ...databases,
    })) {
      if (!this.databaseNames.includes(name))
        await this.createDatabase(name, typeof options === 'function' ? await options() : options)
    }
  }

  #canCreateDefaultDatabase(): boolean {
    const { operator, registry, addresses } = this.controlPlane
    const group = registry.findGroup(operator.organization.id, DEFAULT_GROUP)
    return (
      group !== undefined && !group.isArchived && !addresses.isTaken(operator.organization, DEFAULT_DATABASE)
    )
  }

  get controlPlane(): ControlPlane {
    return this.#parts.controlPlane
  }

  get access(): AccessPolicy {
    return this.#parts.access
  }

  get backendKind(): 'embedded' | 'sqld' {
    return this.controlPlane.backend.kind
  }

  get takesTokens(): boolean {
    return this.#parts.auth
  }

  /** Databases of the operator's organization. */
  get databaseNames(): readonly string[] {
    const { registry, operator } = this.controlPlane
    const rows = registry.databases.rows.filter(
      ({ organization }) => organization === operator.organization.id,
    )
    return rows.filter(({ state }) => state === 'ready').map(({ name }) => name)
  }

  async createDatabase(name: string, options: NewDatabaseOptions = {}): Promise<void> {
    this.#checkOpen()
    checkDatabaseName(name)
    checkOptions(options, NEW_DATABASE, 'createDatabase')
    const {
      fromFile,
      fromDatabase,
      fromSnapshot,
      isSchema = false,
      schema,
      group: groupName,
      ...settings
    } = options
    const { operator, addresses, databases } = this.controlPlane
    if (addresses.isTaken(operator.organization, name)) throw new Error(`database "${name}" already exists`)
    const parent = fromDatabase === undefined ? undefined : this.#getDatabase(fromDatabase)
    // a copy begins in the group of its original
    const group = this.#getGroup(groupName ?? this.#findGroupName(parent))
    await databases.create({
      organization: operator.organization,
      group,
      name,
      source: this.#toSource({ fromFile, parent, fromSnapshot, isSchema, schema, group }),
      ...(parent && { parent }),
      configuration: { ...NEW_CONFIGURATION, ...toConfiguration(settings) },
      readyDelayMs: 0,
    })
  }

  #findGroupName(parent: DatabaseRow | undefined): string {
    return (parent && this.controlPlane.registry.groups.get(parent.group)?.name) ?? DEFAULT_GROUP
  }

  /** Returns the source that the options specify. @throws TypeError if they specify more than one, or a schema of another group */
  #toSource(options: SourceOptions): DatabaseSource {
    const { fromFile, parent: original, fromSnapshot, isSchema, schema, group } = options
    if (fromSnapshot !== undefined && original === undefined)
      throw new TypeError('createDatabase: fromSnapshot needs fromDatabase')
    const sources: DatabaseSource[] = []
    if (fromFile !== undefined) sources.push({ type: 'file', file: fromFile })
    if (original?.isSchema) throw new TypeError('createDatabase: a schema database cannot be copied')
    if (original !== undefined) sources.push(this.#toCopySource(original, fromSnapshot))
    if (isSchema) sources.push({ type: 'schema' })
    if (schema !== undefined) {
      const parent = this.#getDatabase(schema)
      if (parent.group !== group.id)
        throw new TypeError('createDatabase: a database and its schema must be in the same group')
      sources.push({ type: 'schema-child', parent: parent.id })
    }
    if (sources.length > 1)
      throw new TypeError('createDatabase: use only one of fromFile, fromDatabase, isSchema and schema')
    return sources[0] ?? { type: 'empty' }
  }

  #toCopySource(original: DatabaseRow, snapshot: string | undefined): DatabaseSource {
    if (snapshot === undefined) return { type: 'fork', from: original.id }
    const { snapshots } = this.controlPlane
    return { type: 'file', file: snapshots.getFile(snapshots.get(original, snapshot)) }
  }

  /** Returns the id of a database, as used in tokens and jobs. */
  databaseId(name: string): string {
    return this.#getDatabase(name).id
  }

  /** Returns the paths of a database's replicas, by location. */
  getReplicaPaths(name: string): Readonly<Record<string, string>> {
    const row = this.#getDatabase(name)
    const { registry, addresses } = this.controlPlane
    const locations = getReplicaLocations(registry, row)
    return Object.fromEntries(locations.map((location) => [location, addresses.getPath(row, location)]))
  }

  async exportDatabase(name: string, file: string): Promise<void> {
    this.#checkOpen()
    await this.controlPlane.backend.exportTo(this.#getDatabase(name).id, file)
  }

  async updateDatabase(name: string, options: DatabaseOptions): Promise<void> {
    const row = this.#getDatabase(name)
    checkOptions(options, SETTINGS, 'updateDatabase')
    await this.controlPlane.databases.change({
      ...row,
      configuration: { ...row.configuration, ...toConfiguration(options) },
    })
  }

  async setReplica(location: string, condition: ReplicaCondition): Promise<void> {
    this.#checkOpen()
    const { registry, backend } = this.controlPlane
    if (backend.setReplicas === undefined)
      throw new Error('replicas require the back end "sqld" without a URL')
    this.#parts.conditions.change(location, condition)
    for (const { id } of registry.groups.rows) await backend.setReplicas(id)
  }

  async createSnapshot(database: string, name?: string): Promise<Snapshot> {
    return toSnapshot(await this.controlPlane.snapshots.create(this.#getDatabase(database), name))
  }

  listSnapshots(database: string): readonly Snapshot[] {
    return this.controlPlane.snapshots.list(this.#getDatabase(database).id).map(toSnapshot)
  }

  async restoreSnapshot(database: string, name: string): Promise<void> {
    // also one whose file was lost
    const row = this.#find(database) ?? this.#getDatabase(database)
    await this.controlPlane.snapshots.restore(row, name)
    this.#router.forget(row.id)
  }

  async deleteSnapshot(database: string, name: string): Promise<void> {
    await this.controlPlane.snapshots.remove(this.#getDatabase(database), name)
  }

  async deleteDatabase(name: string): Promise<void> {
    const row = this.#getDatabase(name)
    this.#router.forget(row.id)
    await this.controlPlane.databases.remove(row)
  }

  fail(name: string, kind: FailureKind, options: FailureOptions): Failure {
    return this.#router.failures.add(this.#getDatabase(name).id, kind, options)
  }

  async openDatabase(name: string): Promise<void> {
    await this.controlPlane.backend.findHealthProblem(this.#getDatabase(name).id)
  }

  async createToken(name: string, options: TokenOptions = {}): Promise<string> {
    checkOptions(options, TOKEN_OPTIONS, 'createToken')
    const { authorization = 'full-access', expiration = 'never', readAttach: names = [] } = options
    if (!this.#parts.auth) throw new Error('this server does not use tokens; start it with `auth: true`')
    const database = this.#getDatabase(name)
    const attach = names.map((attachedName) => this.#getDatabase(attachedName))
    const otherGroupDatabase = attach.find(({ group }) => group !== database.group)
    if (otherGroupDatabase !== undefined)
      throw new Error(`database "${otherGroupDatabase.name}" is in another group and cannot be attached`)
    const expiresInSeconds = parseExpiration(expiration)
    return mintDatabaseToken(database, { authorization, expiresInSeconds, attach, tables: [] })
  }

  /** Returns a token for the creator of a database; undefined without `auth`. */
  async getOwnerToken(name: string): Promise<string | undefined> {
    return this.#parts.auth ? await this.createToken(name) : undefined
  }

  /** Returns metrics in the Prometheus text format. */
  metrics(): string {
    return this.#router.metrics()
  }

  requestCount(name?: string): number {
    return this.#router.requestCount(name)
  }

  async handle(request: ServiceRequest): Promise<ServiceResponse> {
    const { loss } = this.controlPlane
    if (loss !== null) return errorResponse(503, loss.message)
    return await this.#router.handle(request)
  }

  /** Ends at once, without writing anything: another server uses the data directory. */
  async #abandon(error: Error, { log, onLost }: ServiceOptions): Promise<void> {
    this.#isClosed = true
    await this.controlPlane.abandon(error)
    log.write('error', 'lost', { message: error.message })
    if (onLost) onLost(error)
    else process.emitWarning(error)
  }

  /** Rejects changes to databases from now on. */
  rejectChanges(): void {
    this.#isClosed = true
  }

  close(): Promise<void> {
    this.#isClosed = true
    this.#closing ??= this.#close()
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    const { directory, controlPlane, lock, temporary } = this.#parts
    if (controlPlane.loss !== null) return await lock?.release()
    await runAll([
      () => controlPlane.stop(),
      () => controlPlane.backend[Symbol.asyncDispose](),
      () => controlPlane.close(),
      () => lock?.release(),
      () => temporary?.remove(),
    ]).catch((cause: unknown) => {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`the server was stopped, but could not write everything to ${directory}: ${reason}`, {
        cause,
      })
    })
  }

  #checkOpen(): void {
    if (this.#isClosed) throw this.controlPlane.loss ?? new Error('the server is closed')
  }

  #find(name: string): DatabaseRow | undefined {
    const { registry, operator } = this.controlPlane
    return registry.findDatabase(operator.organization.id, name)
  }

  #getGroup(name: string): GroupRow {
    const { registry, operator } = this.controlPlane
    const group = registry.findGroup(operator.organization.id, name)
    if (group === undefined) {
      const names = registry.groups.rows.filter((row) => row.organization === operator.organization.id)
      throw new Error(
        `group "${name}" does not exist; the groups are: ${names.map((row) => row.name).join(', ') || 'none'}`,
      )
    }
    if (group.isArchived) throw new Error(`group "${name}" is archived; unarchive it first`)
    return group
  }

  #getDatabase(name: string): DatabaseRow {
    this.#checkOpen()
    const row = this.#find(name)
    if (row?.state !== 'ready') throw new Error(`database "${name}" does not exist`)
    return row
  }
}

/** The sources given to `createDatabase`. */
interface SourceOptions {
  readonly fromFile: string | undefined
  readonly parent: DatabaseRow | undefined
  readonly fromSnapshot: string | undefined
  readonly isSchema: boolean
  readonly schema: string | undefined
  readonly group: GroupRow
}

interface ServiceComponents {
  readonly directory: string
  readonly temporary: TemporaryDirectory | null
  readonly lock: DirectoryLock | null
  readonly controlPlane: ControlPlane
  readonly access: AccessPolicy
  readonly domains: ServiceOptions['domains']
  readonly auth: boolean
  readonly inspector: boolean
  readonly notices: Notices
  readonly conditions: ReplicaConditions
  readonly log: ServerLog
}

/** Adds locations to the default group. @throws TypeError for an unknown one */
function addReplicas({ registry, operator }: ControlPlane, locations: readonly string[]): void {
  const unknown = locations.find((location) => !isLocation(location))
  if (unknown !== undefined)
    throw new TypeError(
      `startLocalServer: unknown location ${unknown}; the locations are ${Object.keys(LOCATIONS).join(', ')}`,
    )
  const group = registry.findGroup(operator.organization.id, DEFAULT_GROUP)
  if (group === undefined || locations.length === 0) return
  const updatedGroup = { ...group, locations: [...new Set([...group.locations, ...locations])] }
  registry.transaction(() => registry.groups.put(updatedGroup))
}

function checkDatabaseName(name: string): void {
  if (!/^[a-z0-9][a-z0-9-]{0,63}$/.test(name) || RESERVED_NAMES.has(name)) {
    throw new TypeError(
      `"${name}" is not a valid database name: use 1 to 64 characters a-z, 0-9 and "-", not beginning with "-"; reserved names are ${[...RESERVED_NAMES].join(', ')}`,
    )
  }
}
