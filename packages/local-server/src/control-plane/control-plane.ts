import type { KeyPair } from '../auth/jwt.ts'
import type { DatabaseBackend } from '../backend/backend.ts'
import { Addresses } from './addresses.ts'
import { AuditLog } from './audit.ts'
import { type Home, keyNamed, openHome, PLATFORM_KEY } from './bootstrap.ts'
import { Databases } from './databases.ts'
import { Registry } from './registry/registry.ts'
import type { ApiTokenRow } from './registry/rows.ts'
import { ApiTokens } from './tokens/api-tokens.ts'
import { ExternalTokens } from './tokens/external-tokens.ts'
import { Usage } from './usage.ts'

/** How often what databases have used is written down. */
const SAMPLE_INTERVAL_MS = 15_000
const OWNER_TOKEN = 'owner'

/** How the control plane is made. */
export interface ControlPlaneOptions {
  readonly directory: string
  /** Slug of the organization of the server's operator. */
  readonly organization: string
  /** What follows `<database>-<organization>.` in host names; null to address databases by path. */
  readonly domain: string | null
}

interface RunningParts {
  readonly backend: DatabaseBackend
  readonly databases: Databases
  readonly usage: Usage
}

/** Who owns which database, and what may be done with it. The part below the platform API. */
export class ControlPlane {
  readonly registry: Registry
  readonly home: Home
  readonly addresses: Addresses
  readonly audit: AuditLog
  readonly apiTokens: ApiTokens
  /** Signs what the server itself asks its back end for. */
  readonly controlKey: KeyPair
  readonly externalTokens: ExternalTokens
  #running: RunningParts | null = null
  #sampler: NodeJS.Timeout | null = null
  #sampling: Promise<void> | null = null

  private constructor(registry: Registry, home: Home, domain: string | null) {
    this.registry = registry
    this.home = home
    this.addresses = new Addresses(registry, home.organization, domain)
    this.audit = new AuditLog(registry)
    this.apiTokens = new ApiTokens(registry, keyNamed(registry, PLATFORM_KEY))
    this.externalTokens = new ExternalTokens(registry)
    this.controlKey = keyNamed(registry, 'control-key')
  }

  /** Reads what is known; `start` brings it and the back end together. */
  static async open({ directory, organization, domain }: ControlPlaneOptions): Promise<ControlPlane> {
    const registry = await Registry.open(directory)
    try {
      return new ControlPlane(registry, openHome(registry, organization), domain)
    } catch (error) {
      registry.close()
      throw error
    }
  }

  /** Starts the back end, and finishes what a crash has interrupted; resolves with the back end's version. */
  async start(backend: DatabaseBackend): Promise<string> {
    const usage = new Usage(this.registry, backend)
    const databases = new Databases({
      registry: this.registry,
      backend,
      beforeRemoval: (row) => usage.sample([row]),
    })
    await backend.setAside(new Set(this.registry.databases.rows.map(({ id }) => id)))
    const version = await backend.start()
    this.#running = { backend, databases, usage }
    await databases.reconcile()
    backend.resume()
    this.#sampler = setInterval(() => this.#sample(), SAMPLE_INTERVAL_MS).unref()
    return version
  }

  get backend(): DatabaseBackend {
    return this.#started.backend
  }

  get databases(): Databases {
    return this.#started.databases
  }

  get usage(): Usage {
    return this.#started.usage
  }

  /** The secret of the owner's API token, which is made when there is none. */
  ownerToken(): string {
    const { owner } = this.home
    const known = this.registry.findToken(owner.id, OWNER_TOKEN)
    return this.apiTokens.secretOf(known ?? this.#makeOwnerToken())
  }

  /** To be called while the back end still answers. */
  async stop(): Promise<void> {
    if (this.#sampler !== null) clearInterval(this.#sampler)
    this.#running?.databases.stop()
    await this.#sampling
    await this.#running?.backend.endRequests?.()
    await this.#running?.usage.sampleTouched()
  }

  /** To be called when nothing is changed any more. */
  close(): void {
    this.registry.close()
  }

  get #started(): RunningParts {
    if (this.#running === null) throw new Error('the control plane has not been started')
    return this.#running
  }

  #sample(): void {
    this.#sampling ??= this.usage
      .sampleTouched()
      // a full disk, for instance: nothing is lost, it is tried again
      .catch((error: unknown) => console.error(`usage could not be written down: ${String(error)}`))
      .finally(() => {
        this.#sampling = null
      })
  }

  #makeOwnerToken(): ApiTokenRow {
    const wanted = { name: OWNER_TOKEN, organization: null, group: null, scopes: null }
    const row = this.apiTokens.make(this.home.owner, wanted)
    this.registry.transaction(() => this.registry.apiTokens.put(row))
    return row
  }
}
