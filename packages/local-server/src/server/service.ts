import { EventEmitter } from 'node:events'
import { AccessPolicy } from '../auth/access-policy.ts'
import type { DatabaseBackend, DatabaseSource } from '../backend/backend.ts'
import { RESERVED_NAMES } from '../backend/reserved-names.ts'
import { DirectoryLock } from '../base/directory-lock.ts'
import { endAll } from '../base/end-all.ts'
import { checkOptionNames } from '../base/known-options.ts'
import { openDirectory, type TemporaryDirectory } from '../base/temporary-directory.ts'
import { claimBackend, DEFAULT_GROUP } from '../control-plane/bootstrap.ts'
import { ControlPlane } from '../control-plane/control-plane.ts'
import { NEW_CONFIGURATION } from '../control-plane/databases.ts'
import type { DatabaseConfiguration, DatabaseRow } from '../control-plane/registry/rows.ts'
import { mintDatabaseToken, type TokenAccess } from '../control-plane/tokens/database-tokens.ts'
import type { ServiceRequest, ServiceResponse } from '../http/service-request.ts'
import { type BackendChoice, createBackend, type Notices } from './create-backend.ts'
import { DEFAULT_DATABASE, Gateway } from './gateway.ts'
import type { ServerLog } from './server-log.ts'

/** What a service is made of; the public entries check and complete it. */
export interface ServiceOptions extends BackendChoice {
  readonly domains: Readonly<Record<string, string>>
  readonly allowOrigins: readonly string[]
  /** The address that is listened on. */
  readonly listenHost: string
  /** Slug of the organization that the databases belong to. */
  readonly organization: string
  /** What follows `<database>-<organization>.` in host names; null for none. */
  readonly domain: string | null
  /** Whether there is a page that shows what goes over the wire. */
  readonly window: boolean
  readonly log: ServerLog
}

/** Settings of a database that can be changed at any time. */
export interface DatabaseOptions {
  /**
   * Size at which writes fail with `SQLITE_FULL`; it holds for streams opened afterwards. Null takes it away.
   * @default null
   */
  readonly sizeLimitBytes?: number | null
  /** Refuses reads, and with them writes, with the code `BLOCKED`. @default false */
  readonly blockReads?: boolean
  /** Refuses writes with the code `BLOCKED`. @default false */
  readonly blockWrites?: boolean
  /** Shown to clients that meet a block. @default null */
  readonly blockReason?: string | null
  /** Lets other databases of the server attach this one, to read it. @default false */
  readonly allowAttach?: boolean
}

/** What a database begins as. */
export interface NewDatabaseOptions extends DatabaseOptions {
  /**
   * An SQLite file that it begins as a copy of; no other program may write to it meanwhile. With `backend: 'sqld'` its pages
   * have 4,096 bytes, as by default; a libsql-server by URL takes none.
   */
  readonly fromFile?: string
  /**
   * Whether others can share its schema: what changes it then changes them, too (see `/v1/jobs`).
   * @default false
   */
  readonly isSchema?: boolean
  /** The name of the database whose schema it shares; it begins as a copy of that one. */
  readonly schema?: string
}

/** What a new token allows. */
export interface TokenOptions {
  /** @default 'full-access' */
  readonly access?: TokenAccess
  /** Without, the token does not expire. */
  readonly expiresInSeconds?: number
  /** Names of databases that may be attached and read, if they allow it (`allowAttach`). @default [] */
  readonly attach?: readonly string[]
}

const SETTING_NAMES = ['sizeLimitBytes', 'blockReads', 'blockWrites', 'blockReason', 'allowAttach'] as const
const LOST = 'its file is missing or empty: it answers 404, and is not made anew until it is deleted'
/** The slug of the organization of a server, unless it is named. */
export const HOME_ORGANIZATION = 'local'

/** The service without a socket: databases, tokens, and the answer to each request. */
export class Service implements AsyncDisposable {
  readonly #parts: ServiceParts
  readonly #gateway: Gateway
  #closing: Promise<void> | null = null
  #isClosed = false
  readonly version: string
  readonly dataDirectory: string

  private constructor(parts: ServiceParts, version: string) {
    this.#parts = parts
    this.version = version
    this.dataDirectory = parts.directory
    const { controlPlane, access, domains, window, notices, log } = parts
    this.#gateway = new Gateway({ controlPlane, version, domains, access, window, log })
    notices.on('notice', (id, text) => this.#gateway.notice(id, text))
  }

  static async start(options: ServiceOptions): Promise<Service> {
    const { domains, auth, organization, domain, window } = options
    const access = new AccessPolicy(options)
    const { directory, temporary } = await openDirectory(options.dataDirectory, 'baton-')
    // no other server knows a temporary one
    const lock = temporary ? null : await DirectoryLock.acquire(directory)
    let controlPlane: ControlPlane | null = null
    let backend: DatabaseBackend | null = null
    try {
      controlPlane = await ControlPlane.open({ directory, organization, domain })
      claimBackend(controlPlane.registry, options.sqld === undefined ? options.backend : 'sqld by URL')
      const notices: Notices = new EventEmitter()
      backend = createBackend(options, directory, controlPlane, notices)
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
          window,
          notices,
          log: options.log,
        },
        version,
      )
      for (const { id, state } of controlPlane.registry.databases.rows)
        if (state === 'lost') service.#gateway.notice(id, LOST)
      // later its absence, or that of its group, is deliberate
      if (service.databaseNames.length === 0 && service.#canHaveDefault())
        await service.createDatabase(DEFAULT_DATABASE)
      return service
    } catch (error) {
      await endAll([
        () => backend?.[Symbol.asyncDispose](),
        () => controlPlane?.stop(),
        () => controlPlane?.close(),
        () => lock?.release(),
        () => temporary?.remove(),
      ]).catch(() => {}) // what kept it from starting says more
      throw error
    }
  }

  #canHaveDefault(): boolean {
    const { home, registry, addresses } = this.controlPlane
    const group = registry.findGroup(home.organization.id, DEFAULT_GROUP)
    return group !== undefined && !group.isArchived && !addresses.isTaken(home.organization, DEFAULT_DATABASE)
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

  /** Databases of the home organization. */
  get databaseNames(): readonly string[] {
    const { registry, home } = this.controlPlane
    const own = registry.databases.rows.filter(({ organization }) => organization === home.organization.id)
    return own.filter(({ state }) => state === 'ready').map(({ name }) => name)
  }

  async createDatabase(name: string, options: NewDatabaseOptions = {}): Promise<void> {
    this.#checkOpen()
    checkDatabaseName(name)
    const { fromFile, isSchema = false, schema, ...rest } = options
    const configuration = mergeSettings('createDatabase', NEW_CONFIGURATION, rest)
    const { home, registry, addresses, databases } = this.controlPlane
    if (addresses.isTaken(home.organization, name)) throw new Error(`database "${name}" exists already`)
    const group = registry.findGroup(home.organization.id, DEFAULT_GROUP)
    if (group === undefined) throw new Error(`the group "${DEFAULT_GROUP}" was removed`)
    await databases.create({
      organization: home.organization,
      group,
      name,
      source: this.#sourceOf({ fromFile, isSchema, schema }),
      configuration,
      readyDelayMs: 0,
    })
  }

  /** @throws TypeError when it is more than one */
  #sourceOf({ fromFile, isSchema, schema }: SourceOptions): DatabaseSource {
    const given: DatabaseSource[] = []
    if (fromFile !== undefined) given.push({ type: 'file', file: fromFile })
    if (isSchema) given.push({ type: 'schema' })
    if (schema !== undefined) given.push({ type: 'schema-child', parent: this.#database(schema).id })
    if (given.length > 1) throw new TypeError('createDatabase: give one of fromFile, isSchema and schema')
    return given[0] ?? { type: 'empty' }
  }

  /** What tokens and jobs call a database. */
  databaseId(name: string): string {
    return this.#database(name).id
  }

  async exportDatabase(name: string, file: string): Promise<void> {
    this.#checkOpen()
    await this.controlPlane.backend.exportTo(this.#database(name).id, file)
  }

  async updateDatabase(name: string, options: DatabaseOptions): Promise<void> {
    const row = this.#database(name)
    const configuration = mergeSettings('updateDatabase', row.configuration, options)
    await this.controlPlane.databases.change({ ...row, configuration })
  }

  async removeDatabase(name: string): Promise<void> {
    const row = this.#database(name)
    this.#gateway.forget(row.id)
    await this.controlPlane.databases.remove(row)
  }

  async createToken(name: string, options: TokenOptions = {}): Promise<string> {
    checkOptionNames('createToken', options, ['access', 'expiresInSeconds', 'attach'])
    const { access = 'full-access', expiresInSeconds = null, attach: names = [] } = options
    if (!this.#parts.auth) throw new Error('this server takes no tokens; start it with `auth: true`')
    if (access !== 'full-access' && access !== 'read-only')
      throw new TypeError(`createToken: no such access: ${String(access)}`)
    const database = this.#database(name)
    const attach = names.map((other) => this.#database(other))
    const far = attach.find(({ group }) => group !== database.group)
    if (far !== undefined)
      throw new Error(`database "${far.name}" is in another group and cannot be attached`)
    return mintDatabaseToken(database, { access, expiresInSeconds, attach, tables: [] })
  }

  /** A token for the creator of a database, where tokens are needed. */
  async ownerToken(name: string): Promise<string | undefined> {
    return this.#parts.auth ? await this.createToken(name) : undefined
  }

  /** What Prometheus reads. */
  metrics(): string {
    return this.#gateway.metrics()
  }

  requestCount(name?: string): number {
    return this.#gateway.requestCount(name)
  }

  async handle(request: ServiceRequest): Promise<ServiceResponse> {
    return await this.#gateway.handle(request)
  }

  /** What changes databases rejects from now on. */
  refuseChanges(): void {
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
    await endAll([
      () => controlPlane.stop(),
      () => controlPlane.backend[Symbol.asyncDispose](),
      () => controlPlane.close(),
      () => lock?.release(),
      () => temporary?.remove(),
    ]).catch((cause: unknown) => {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`the server has ended, but could not write everything to ${directory}: ${reason}`, {
        cause,
      })
    })
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new Error('the server is closed')
  }

  #find(name: string): DatabaseRow | undefined {
    const { registry, home } = this.controlPlane
    return registry.findDatabase(home.organization.id, name)
  }

  #database(name: string): DatabaseRow {
    this.#checkOpen()
    const row = this.#find(name)
    if (row?.state !== 'ready') throw new Error(`there is no database "${name}"`)
    return row
  }
}

/** Which of the ways to begin were chosen. */
interface SourceOptions {
  readonly fromFile: string | undefined
  readonly isSchema: boolean
  readonly schema: string | undefined
}

interface ServiceParts {
  readonly directory: string
  readonly temporary: TemporaryDirectory | null
  readonly lock: DirectoryLock | null
  readonly controlPlane: ControlPlane
  readonly access: AccessPolicy
  readonly domains: ServiceOptions['domains']
  readonly auth: boolean
  readonly window: boolean
  readonly notices: Notices
  readonly log: ServerLog
}

function checkDatabaseName(name: string): void {
  if (!/^[a-z0-9][a-z0-9-]{0,63}$/.test(name) || RESERVED_NAMES.has(name)) {
    throw new TypeError(
      `"${name}" cannot be the name of a database: 1 to 64 of a-z, 0-9 and "-", and none of ${[...RESERVED_NAMES].join(', ')}`,
    )
  }
}

function mergeSettings(
  subject: string,
  current: DatabaseConfiguration,
  options: DatabaseOptions,
): DatabaseConfiguration {
  checkOptionNames(subject, options, SETTING_NAMES)
  const merged = { ...current, ...options }
  const { sizeLimitBytes } = merged
  if (sizeLimitBytes !== null && !(Number.isInteger(sizeLimitBytes) && sizeLimitBytes > 0)) {
    throw new RangeError(`${subject}: sizeLimitBytes must be a positive whole number or null`)
  }
  return merged
}
