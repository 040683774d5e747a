import { join } from 'node:path'
import type { KeyPair } from '@batonsql/server-common/auth'
import { type DatabaseBackend, type DatabaseId, withTimeLimit } from '@batonsql/server-common/backend'
import { Addresses } from './addresses.ts'
import { AuditLog } from './audit-log.ts'
import { getOrCreateKey, type OperatorAccount, openOperatorAccount, PLATFORM_KEY } from './bootstrap.ts'
import { Databases } from './databases.ts'
import { Registry } from './registry/registry.ts'
import type { ApiTokenRow } from './registry/rows.ts'
import { Snapshots } from './snapshots.ts'
import { ApiTokens } from './tokens/api-tokens.ts'
import { ExternalTokens } from './tokens/external-tokens.ts'
import { Usage } from './usage.ts'

/** How often usage is recorded. */
const SAMPLE_INTERVAL_MS = 15_000
/** Maximum time for which `close` waits for running calls. */
const CALLS_LIMIT_MS = 5_000
/** Name of the API token that the operator uses. */
const OWNER_TOKEN = 'owner'

export interface ControlPlaneOptions {
  readonly directory: string
  /** Whether acknowledged changes must survive a power failure. */
  readonly isDurable: boolean
  /** Slug of the operator's organization. */
  readonly organization: string
  /** Suffix of host names after `<database>-<organization>.`; null to address databases by path. */
  readonly domain: string | null
  readonly version: string
}

interface RunningParts {
  readonly backend: DatabaseBackend
  readonly databases: Databases
  readonly usage: Usage
  readonly snapshots: Snapshots
}

/** Manages organizations, users, groups, databases and tokens; the platform API is built on it. */
export class ControlPlane {
  readonly registry: Registry
  /** The operator's organization and its owner. */
  readonly operator: OperatorAccount
  readonly addresses: Addresses
  readonly audit: AuditLog
  readonly apiTokens: ApiTokens
  /** Signs internal requests to the back end. */
  readonly controlKey: KeyPair
  readonly externalTokens: ExternalTokens
  readonly version: string
  readonly #directory: string
  readonly #calls = new Set<Promise<unknown>>()
  #running: RunningParts | null = null
  #loss: Error | null = null
  #sampler: NodeJS.Timeout | null = null
  #sampling: Promise<void> | null = null

  private constructor(
    registry: Registry,
    operator: OperatorAccount,
    { domain, version, directory }: ControlPlaneOptions,
  ) {
    this.#directory = directory
    this.registry = registry
    this.version = version
    this.operator = operator
    this.addresses = new Addresses(registry, operator.organization, domain)
    this.audit = new AuditLog(registry)
    this.apiTokens = new ApiTokens(registry, getOrCreateKey(registry, PLATFORM_KEY))
    this.externalTokens = new ExternalTokens(registry)
    this.controlKey = getOrCreateKey(registry, 'control-key')
  }

  /** Opens the registry, without starting the back end. */
  static async open(options: ControlPlaneOptions): Promise<ControlPlane> {
    const registry = await Registry.open(options.directory, options.isDurable)
    try {
      return new ControlPlane(registry, openOperatorAccount(registry, options.organization), options)
    } catch (error) {
      registry.close()
      throw error
    }
  }

  /**
   * Starts the back end, and finishes changes that a crash interrupted.
   * @param onRemoval called after the back end has removed a database
   * @returns the version of the back end
   */
  async start(backend: DatabaseBackend, onRemoval: (id: DatabaseId) => void = () => {}): Promise<string> {
    const usage = new Usage(this.registry, backend)
    const databases = new Databases({
      registry: this.registry,
      backend,
      beforeRemoval: (row) => usage.sample([row]),
      onRemoval: async ({ id }) => {
        onRemoval(id)
        await snapshots.removeAll(id)
      },
    })
    const folder = join(this.#directory, 'snapshots')
    const snapshots = new Snapshots({ registry: this.registry, backend, databases, folder })
    const setAside = await backend.setAsideUnregistered(
      new Set(this.registry.databases.rows.map(({ id }) => id)),
    )
    if (setAside.length > 0)
      console.error(
        `databases that the registry does not contain were moved to a folder whose name ends with -set-aside: ${setAside.join(', ')}`,
      )
    const version = await backend.start()
    this.#running = { backend, databases, usage, snapshots }
    await snapshots.start()
    await databases.reconcile()
    backend.resume()
    this.#sampler = setInterval(() => this.#sample(), SAMPLE_INTERVAL_MS).unref()
    return version
  }

  get backend(): DatabaseBackend {
    return this.#parts.backend
  }

  get databases(): Databases {
    return this.#parts.databases
  }

  get usage(): Usage {
    return this.#parts.usage
  }

  get snapshots(): Snapshots {
    return this.#parts.snapshots
  }

  /** Returns the secret of the owner's API token, which is created if necessary. */
  getOwnerToken(): string {
    const { owner } = this.operator
    const existing = this.registry.findToken(owner.id, OWNER_TOKEN)
    return this.apiTokens.getSecret(existing ?? this.#createOwnerToken())
  }

  /** Stops background work. Must be called while the back end is still running. */
  async stop(): Promise<void> {
    if (this.#sampler !== null) clearInterval(this.#sampler)
    this.#running?.databases.stop()
    await this.#sampling
    await this.#running?.backend.abortRequests?.()
    await this.#running?.usage.sampleTouched()
  }

  /** The error that says why another server uses the directory, after which nothing may be changed; null until then. */
  get loss(): Error | null {
    return this.#loss
  }

  /** Stops immediately, because another server is using the directory. Leaves the registry open: closing it would write to its file. */
  async abandon(loss: Error): Promise<void> {
    this.#loss = loss
    if (this.#sampler !== null) clearInterval(this.#sampler)
    this.#running?.databases.stop()
    await this.#running?.backend.abandon()
  }

  /** Tracks a call that may use the data directory: `close` waits for it, at most 5 s. */
  async track<T>(call: Promise<T>): Promise<T> {
    this.#calls.add(call)
    return await call.finally(() => this.#calls.delete(call))
  }

  /** Closes the registry, and reports calls that are still running. Must be called after the back end has been stopped, so that running calls fail. */
  async close(): Promise<void> {
    await withTimeLimit(Promise.allSettled(this.#calls), CALLS_LIMIT_MS)
    const { size } = this.#calls
    if (size > 0) console.error(`the server was closed after 5 s, while calls were still running: ${size}`)
    this.registry.close()
  }

  get #parts(): RunningParts {
    if (this.#running === null) throw new Error('the control plane has not been started')
    return this.#running
  }

  #sample(): void {
    this.#sampling ??= this.usage
      .sampleTouched()
      // for example on a full disk; no usage is lost, because the next sample includes it
      .catch((error: unknown) => console.error(`usage could not be recorded: ${String(error)}`))
      .finally(() => {
        this.#sampling = null
      })
  }

  #createOwnerToken(): ApiTokenRow {
    const options = { name: OWNER_TOKEN, organization: null, group: null, scopes: null }
    const row = this.apiTokens.createRow(this.operator.owner, options)
    this.registry.transaction(() => this.registry.apiTokens.put(row))
    return row
  }
}
