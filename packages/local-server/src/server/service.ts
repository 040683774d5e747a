import {
  ControlPlane,
  claimBackend,
  type DatabaseConfiguration,
  type DatabaseRow,
  DEFAULT_GROUP,
  type GroupRow,
  mintDatabaseToken,
  NEW_CONFIGURATION,
  parseExpiration,
  parseSizeLimit,
} from '@batonsql/control-plane'
import { checkOption, checkOptions, NON_EMPTY } from '@batonsql/options'
import { AccessPolicy } from '@batonsql/server-common/auth'
import {
  type DatabaseBackend,
  type DatabaseId,
  type DatabaseSource,
  ReplicaConditions,
} from '@batonsql/server-common/backend'
import {
  DirectoryLock,
  omitUndefined,
  openDirectory,
  runAll,
  type TemporaryDirectory,
} from '@batonsql/server-common/base'
import { errorResponse, type ServiceRequest, type ServiceResponse } from '@batonsql/server-common/http'
import { createBackend } from './create-backend.ts'
import { DatabaseRouter } from './database-router.ts'
import { checkDatabaseName, DATABASE_RULES, NEW_DATABASE_RULES, TOKEN_RULES } from './option-rules.ts'
import { PACKAGE_VERSION } from './package-version.ts'
import { DEFAULT_DATABASE } from './resolve-address.ts'
import type { ServerLog } from './server-log.ts'
import {
  type DatabaseOptions,
  type InitialDatabases,
  type LocalServerOptions,
  type NewDatabaseOptions,
  type TokenOptions,
  takesTokens,
} from './server-options.ts'

/** Options of a {@link Service}, checked by the public entry points. */
export interface ServiceOptions extends Omit<LocalServerOptions, 'port' | 'host' | 'log'> {
  /** Address that the server listens on. */
  readonly listenHost: string
  readonly log: ServerLog
}

const toConfiguration = ({ sizeLimit, ...settings }: DatabaseOptions): Partial<DatabaseConfiguration> => ({
  ...omitUndefined(settings),
  ...(sizeLimit !== undefined && { sizeLimitBytes: parseSizeLimit(sizeLimit ?? '') }),
})

const LOST_NOTICE =
  'its file is missing or empty: the database responds with 404 until it is deleted and created again, or restored from a snapshot'

/** The service without a socket: manages databases and tokens, and handles requests. */
export class Service {
  readonly parts: ServiceParts
  readonly controlPlane: ControlPlane
  #closing: Promise<void> | null = null
  #isClosed = false

  private constructor(parts: ServiceParts) {
    this.parts = parts
    this.controlPlane = parts.controlPlane
  }

  static async start(options: ServiceOptions): Promise<Service> {
    const { backend: kind = 'embedded', platform, inspector = false, log, listenHost: host } = options
    const { organization = 'local', domain = null } = platform ?? {}
    const { databases = {} } = options
    for (const name of Object.keys(databases)) checkDatabaseName(name)
    const domains = Object.fromEntries(
      Object.entries(options.domains ?? {}).map(([name, database]) => [name.toLowerCase(), database]),
    )
    const access = new AccessPolicy({
      listenHost: host,
      domains,
      domain,
      allowOrigins: options.allowOrigins ?? [],
    })
    const conditions = new ReplicaConditions(options.replicaLagMs)
    const { directory, temporary } = await openDirectory(options.dataDirectory, 'baton-')
    const isDurable = temporary === null
    let service: Service | null = null
    let router: DatabaseRouter | null = null
    const losses: Error[] = []
    const onLost = (error: Error): void => {
      losses.push(error)
      if (service !== null) void service.#abandon(error, options)
    }
    // no other server uses a temporary directory
    const lock = isDurable ? await DirectoryLock.acquire(directory, onLost) : null
    let controlPlane: ControlPlane | null = null
    let backend: DatabaseBackend | null = null
    try {
      const settings = { directory, isDurable, organization, domain, version: PACKAGE_VERSION }
      controlPlane = await ControlPlane.open(settings)
      claimBackend(controlPlane.registry, options.sqld === undefined ? kind : 'sqld by URL')
      addReplicas(controlPlane, options.replicas ?? [])
      const onNotice = (id: DatabaseId, text: string): void => router?.reportNotice(id, text)
      backend = await createBackend(options, { directory, isDurable, controlPlane, conditions, onNotice })
      const version = await controlPlane.start(backend, (id) => router?.forget(id))
      router = new DatabaseRouter({ controlPlane, version, domains, access, inspector, log })
      const parts = { directory, temporary, lock, controlPlane, router, conditions, access, version }
      // lost while it started
      for (const loss of losses) throw loss
      service = new Service({ ...parts, host, inspector, log, takesTokens: takesTokens(options) })
      for (const { id, state } of controlPlane.registry.databases.rows)
        if (state === 'lost') router.reportNotice(id, LOST_NOTICE)
      await service.#createInitialDatabases(databases)
      return service
    } catch (error) {
      const [loss] = losses
      await runAll([
        ...(loss
          ? // another server uses the directory, so nothing is written
            [() => controlPlane?.abandon(loss), () => backend?.abandon()]
          : [
              () => backend?.[Symbol.asyncDispose](),
              () => controlPlane?.stop(),
              () => controlPlane?.close(),
            ]),
        () => lock?.release(),
        () => temporary?.remove(),
      ]).catch(() => {}) // reports the first error instead
      throw error
    }
  }

  async #createInitialDatabases(databases: InitialDatabases): Promise<void> {
    const needsDefault = !this.#hasDatabases() && this.#canCreateDefaultDatabase()
    for (const [name, options] of Object.entries({
      ...(needsDefault && { [DEFAULT_DATABASE]: {} }),
      ...databases,
    })) {
      if (this.findDatabase(name) === undefined)
        await this.createDatabase(name, typeof options === 'function' ? await options() : options)
    }
  }

  /** Whether the operator has databases; those whose files were lost count, so that no empty one is used in their place. */
  #hasDatabases(): boolean {
    const { registry, operator } = this.controlPlane
    return registry.databases.rows.some(
      ({ organization, state }) => organization === operator.organization.id && state !== 'deleting',
    )
  }

  /** Whether its name is free, and its group was neither deleted nor archived. */
  #canCreateDefaultDatabase(): boolean {
    const { operator, registry, addresses } = this.controlPlane
    const group = registry.findGroup(operator.organization.id, DEFAULT_GROUP)
    return (
      group !== undefined && !group.isArchived && !addresses.isTaken(operator.organization, DEFAULT_DATABASE)
    )
  }

  /** Names of the operator's databases that can be used. */
  get databaseNames(): readonly string[] {
    const { registry, operator } = this.controlPlane
    const rows = registry.databases.rows.filter(
      ({ organization }) => organization === operator.organization.id,
    )
    return rows.filter(({ state }) => state === 'ready').map(({ name }) => name)
  }

  async createDatabase(name: string, options: NewDatabaseOptions = {}): Promise<void> {
    this.checkOpen()
    checkOption('createDatabase: the name', name, 'string')
    checkDatabaseName(name)
    checkOptions(options, NEW_DATABASE_RULES, 'createDatabase')
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
    // a snapshot can be copied although the file of its database was lost
    const find = (original: string): DatabaseRow =>
      fromSnapshot === undefined ? this.getDatabase(original) : this.getExistingDatabase(original)
    const parent = fromDatabase === undefined ? undefined : find(fromDatabase)
    // a copy begins in the group of its original
    const group = this.#getGroup(groupName ?? this.#findGroupName(parent))
    const creation = databases.create({
      organization: operator.organization,
      group,
      name,
      source: this.#toSource({ fromFile, parent, fromSnapshot, isSchema, schema, group }),
      ...(parent && { parent }),
      configuration: { ...NEW_CONFIGURATION, ...toConfiguration(settings) },
      readyDelayMs: 0,
    })
    await this.controlPlane.track(creation)
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
      const parent = this.getDatabase(schema)
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

  async updateDatabase(name: string, options: DatabaseOptions): Promise<void> {
    const row = this.getDatabase(name)
    checkOptions(options, DATABASE_RULES, 'updateDatabase')
    const configuration = { ...row.configuration, ...toConfiguration(options) }
    await this.controlPlane.track(this.controlPlane.databases.change({ ...row, configuration }))
  }

  async deleteDatabase(name: string): Promise<void> {
    await this.controlPlane.track(this.controlPlane.databases.remove(this.getExistingDatabase(name)))
  }

  async exportDatabase(name: string, file: string): Promise<void> {
    checkOption('exportDatabase: the file', file, NON_EMPTY)
    await this.controlPlane.track(this.controlPlane.backend.exportTo(this.getDatabase(name).id, file))
  }

  async createToken(name: string, options: TokenOptions = {}): Promise<string> {
    checkOptions(options, TOKEN_RULES, 'createToken')
    const { authorization = 'full-access', expiration = 'never', readAttach: names = [] } = options
    this.checkOpen()
    if (!this.parts.takesTokens)
      throw new Error('this server does not use tokens; start it with `auth: true`')
    const database = this.getDatabase(name)
    const attach = names.map((attachedName) => this.getDatabase(attachedName))
    const otherGroupDatabase = attach.find(({ group }) => group !== database.group)
    if (otherGroupDatabase !== undefined)
      throw new Error(`database "${otherGroupDatabase.name}" is in another group and cannot be attached`)
    const expiresInSeconds = parseExpiration(expiration)
    return mintDatabaseToken(database, { authorization, expiresInSeconds, attach, tables: [] })
  }

  /** Returns a token for the creator of a database; undefined if the server takes no tokens. */
  async getOwnerToken(name: string): Promise<string | undefined> {
    return this.parts.takesTokens ? await this.createToken(name) : undefined
  }

  async handle(request: ServiceRequest): Promise<ServiceResponse> {
    const { loss } = this.controlPlane
    if (loss !== null) return errorResponse(503, loss.message)
    return await this.parts.router.handle(request)
  }

  /** Ends at once, without writing anything: another server uses the data directory. */
  async #abandon(error: Error, { log, onLost }: ServiceOptions): Promise<void> {
    this.#isClosed = true
    await this.controlPlane.abandon(error)
    log.write('error', 'lost', { message: error.message })
    if (onLost) onLost(error)
    else process.emitWarning(error)
  }

  rejectChanges(): void {
    this.#isClosed = true
  }

  close(): Promise<void> {
    this.#isClosed = true
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const { directory, controlPlane, lock, temporary } = this.parts
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

  /** @throws Error after the service was closed, or was ended because another server uses its directory */
  checkOpen(): void {
    if (this.#isClosed) throw this.controlPlane.loss ?? new Error('the server is closed')
  }

  /** Returns a database of the operator's organization, whatever its state. */
  findDatabase(name: string): DatabaseRow | undefined {
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

  /** Returns a database that is ready. @throws Error if it does not exist or its file was lost, or the service was closed */
  getDatabase(name: string): DatabaseRow {
    const row = this.getExistingDatabase(name)
    if (row.state === 'lost')
      throw new Error(
        `the file of database "${name}" is missing or empty; delete the database, or restore a snapshot of it`,
      )
    return row
  }

  /** Returns a database that is ready, or whose file was lost. @throws Error if it does not exist, or the service was closed */
  getExistingDatabase(name: string): DatabaseRow {
    this.checkOpen()
    const row = this.findDatabase(name)
    if (row?.state !== 'ready' && row?.state !== 'lost') throw new Error(`database "${name}" does not exist`)
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

export interface ServiceParts {
  readonly directory: string
  readonly temporary: TemporaryDirectory | null
  readonly lock: DirectoryLock | null
  readonly controlPlane: ControlPlane
  readonly router: DatabaseRouter
  readonly conditions: ReplicaConditions
  readonly access: AccessPolicy
  readonly version: string
  readonly takesTokens: boolean
  readonly host: string
  readonly inspector: boolean
  readonly log: ServerLog
}

/** Adds locations to the default group. */
function addReplicas({ registry, operator }: ControlPlane, locations: readonly string[]): void {
  const group = registry.findGroup(operator.organization.id, DEFAULT_GROUP)
  if (group === undefined || locations.length === 0) return
  const updatedGroup = { ...group, locations: [...new Set([...group.locations, ...locations])] }
  registry.transaction(() => registry.groups.put(updatedGroup))
}
