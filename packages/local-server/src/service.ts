import { join } from 'node:path'
import { AccessPolicy } from './access-policy.ts'
import type { DatabaseBackend, DatabaseId, DatabaseSettings } from './backend.ts'
import { type DatabaseRecord, newDatabaseId, Registry } from './control-plane/registry.ts'
import { type TokenAccess, TokenMint } from './control-plane/token-mint.ts'
import { DirectoryLock } from './directory-lock.ts'
import { EmbeddedBackend } from './embedded/backend.ts'
import type { ServiceRequest, ServiceResponse } from './exchange.ts'
import { DEFAULT_DATABASE, Gateway, RESERVED_NAMES } from './gateway.ts'
import { checkOptionNames } from './known-options.ts'
import { SqldBackend } from './sqld/backend.ts'
import { openDirectory, type TemporaryDirectory } from './temporary-directory.ts'

/** What a service is made of; the public entries check and complete it. */
export interface ServiceOptions {
  readonly backend: 'embedded' | 'sqld'
  readonly dataDirectory: string | undefined
  readonly auth: boolean
  readonly sqldPath: string | undefined
  readonly domains: Readonly<Record<string, string>>
  readonly allowOrigins: readonly string[]
  /** The address that is listened on. */
  readonly listenHost: string
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
  /** An SQLite file that it begins as a copy of; no other program may write to it meanwhile. Back end `embedded` only. */
  readonly fromFile?: string
}

/** What a new token allows. */
export interface TokenOptions {
  /** @default 'full-access' */
  readonly access?: TokenAccess
  /** Without, the token does not expire. */
  readonly expiresInSeconds?: number
}

const SETTING_NAMES = ['sizeLimitBytes', 'blockReads', 'blockWrites', 'blockReason', 'allowAttach'] as const
const NO_SETTINGS: DatabaseSettings = {
  sizeLimitBytes: null,
  blockReads: false,
  blockWrites: false,
  blockReason: null,
  allowAttach: false,
}

/** The service without a socket: databases, tokens, and the answer to each request. */
export class Service implements AsyncDisposable {
  readonly #temporary: TemporaryDirectory | null
  readonly #lock: DirectoryLock
  readonly #registry: Registry
  readonly #backend: DatabaseBackend
  readonly #mint: TokenMint | null
  readonly #gateway: Gateway
  #closing: Promise<void> | null = null
  #isClosed = false
  readonly version: string

  private constructor(parts: ServiceParts, version: string) {
    this.#temporary = parts.temporary
    this.#lock = parts.lock
    this.#registry = parts.registry
    this.#backend = parts.backend
    this.#mint = parts.mint
    this.version = version
    const findDatabase = (name: string): DatabaseRecord | undefined => this.#registry.find(name)
    const { backend, access, domains } = parts
    this.#gateway = new Gateway({ backend, findDatabase, version, domains, access })
  }

  static async start(options: ServiceOptions): Promise<Service> {
    const access = new AccessPolicy(options)
    const { domains } = options
    const { directory, temporary } = await openDirectory(options.dataDirectory, 'baton-')
    const lock = await DirectoryLock.acquire(directory)
    let backend: DatabaseBackend | null = null
    try {
      const registry = await Registry.open(directory)
      const mint = options.auth ? await TokenMint.open(directory) : null
      const idOf = (name: string): DatabaseId | undefined => registry.find(name)?.id
      backend = createBackend(options, { directory, mint, idOf })
      const version = await backend.start()
      for (const { id, settings } of registry.records) await backend.applySettings(id, settings)
      backend.resume()
      const parts = { temporary, lock, registry, backend, mint, access, domains }
      const service = new Service(parts, version)
      if (registry.find(DEFAULT_DATABASE) === undefined) await service.createDatabase(DEFAULT_DATABASE)
      return service
    } catch (error) {
      await backend?.[Symbol.asyncDispose]()
      await lock.release()
      await temporary?.remove()
      throw error
    }
  }

  get backendKind(): 'embedded' | 'sqld' {
    return this.#backend.kind
  }

  get databaseNames(): readonly string[] {
    return this.#registry.records.map(({ name }) => name)
  }

  async createDatabase(name: string, options: NewDatabaseOptions = {}): Promise<void> {
    this.#checkOpen()
    checkDatabaseName(name)
    const { fromFile, ...rest } = options
    const settings = mergeSettings('createDatabase', NO_SETTINGS, rest)
    if (this.#registry.find(name) !== undefined) throw new Error(`database "${name}" exists already`)
    const record = { name, id: newDatabaseId(), settings }
    if (fromFile === undefined) await this.#backend.create(record.id, settings)
    else await this.#backend.createFromFile(record.id, settings, fromFile)
    await this.#registry.put(record)
  }

  async exportDatabase(name: string, file: string): Promise<void> {
    this.#checkOpen()
    await this.#backend.exportTo(this.#record(name).id, file)
  }

  async updateDatabase(name: string, options: DatabaseOptions): Promise<void> {
    const record = this.#record(name)
    const settings = mergeSettings('updateDatabase', record.settings, options)
    await this.#backend.applySettings(record.id, settings)
    await this.#registry.put({ ...record, settings })
  }

  async removeDatabase(name: string): Promise<void> {
    const record = this.#record(name)
    // first the name, so that nobody reaches a database that is half gone
    await this.#registry.remove(name)
    this.#gateway.forget(record.id)
    await this.#backend.remove(record.id)
  }

  createToken(name: string, options: TokenOptions = {}): string {
    checkOptionNames('createToken', options, ['access', 'expiresInSeconds'])
    const { access = 'full-access', expiresInSeconds } = options
    if (this.#mint === null) throw new Error('this server takes no tokens; start it with `auth: true`')
    if (access !== 'full-access' && access !== 'read-only')
      throw new TypeError(`createToken: no such access: ${String(access)}`)
    return this.#mint.mint(this.#record(name).id, access, expiresInSeconds ?? null)
  }

  /** A token for the creator of a database, where tokens are needed. */
  ownerToken(name: string): string | undefined {
    return this.#mint === null ? undefined : this.createToken(name)
  }

  requestCount(name?: string): number {
    return this.#gateway.requestCount(name)
  }

  handle(request: ServiceRequest): Promise<ServiceResponse> {
    return this.#gateway.handle(request)
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
    await this.#backend[Symbol.asyncDispose]()
    await this.#lock.release()
    await this.#temporary?.remove()
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new Error('the server is closed')
  }

  #record(name: string): DatabaseRecord {
    this.#checkOpen()
    const record = this.#registry.find(name)
    if (record === undefined) throw new Error(`there is no database "${name}"`)
    return record
  }
}

interface ServiceParts {
  readonly temporary: TemporaryDirectory | null
  readonly lock: DirectoryLock
  readonly registry: Registry
  readonly backend: DatabaseBackend
  readonly mint: TokenMint | null
  readonly access: AccessPolicy
  readonly domains: ServiceOptions['domains']
}

interface BackendParts {
  readonly directory: string
  readonly mint: TokenMint | null
  readonly idOf: (name: string) => DatabaseId | undefined
}

function createBackend(options: ServiceOptions, { directory, mint, idOf }: BackendParts): DatabaseBackend {
  const publicKeyPem = mint?.publicKeyPem ?? null
  if (options.backend === 'embedded')
    return new EmbeddedBackend({ directory: join(directory, 'databases'), publicKeyPem, idOf })
  return new SqldBackend({ directory: join(directory, 'sqld'), publicKeyPem, sqldPath: options.sqldPath })
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
  current: DatabaseSettings,
  options: DatabaseOptions,
): DatabaseSettings {
  checkOptionNames(subject, options, SETTING_NAMES)
  const merged = { ...current, ...options }
  const { sizeLimitBytes } = merged
  if (sizeLimitBytes !== null && !(Number.isInteger(sizeLimitBytes) && sizeLimitBytes > 0)) {
    throw new RangeError(`${subject}: sizeLimitBytes must be a positive whole number or null`)
  }
  return merged
}
