import type { DatabaseId, DatabaseSettings } from '../backend.ts'
import { EngineHost } from './engine-host.ts'
import { engineModule } from './engine-module.ts'

/** A host nobody has needed for so long is ended; the next request starts another one. */
const IDLE_MS = 5_000

/** What the table has to know about databases. */
export interface HostTableOptions {
  pathOf(id: DatabaseId): string
  /** Whether no stream of the database is open. */
  isIdle(id: DatabaseId): boolean
  /** The host of a database has ended, and its streams with it. */
  onExit(id: DatabaseId): void
}

/** The engine hosts of a server: one for each database in use, and one in reserve so that nobody waits for a start. */
export class HostTable {
  readonly #options: HostTableOptions
  readonly #hosts = new Map<DatabaseId, EngineHost>()
  readonly #settings = new Map<DatabaseId, DatabaseSettings>()
  readonly #timers = new Map<DatabaseId, NodeJS.Timeout>()
  readonly #owners = new Map<EngineHost, DatabaseId>()
  #module: WebAssembly.Module | null = null
  #reserve: EngineHost | null = null
  #isClosed = false

  constructor(options: HostTableOptions) {
    this.#options = options
  }

  /** Starts the reserve and with it proves that the engine works here; resolves with the engine's version. */
  async prepare(): Promise<string> {
    this.#module = await engineModule()
    this.#reserve ??= this.#start()
    return await this.#reserve.ready
  }

  configure(id: DatabaseId, settings: DatabaseSettings): void {
    this.#settings.set(id, settings)
    this.#hosts.get(id)?.applySettings(settings)
  }

  find(id: DatabaseId): EngineHost | undefined {
    return this.#hosts.get(id)
  }

  /** The host of a database, started when it is not there. */
  get(id: DatabaseId): EngineHost {
    if (this.#isClosed) throw new Error('the server is closed')
    this.#postponeEnd(id)
    const present = this.#hosts.get(id)
    if (present !== undefined && !present.isDead) return present
    const settings = this.#settings.get(id)
    if (settings === undefined) throw new Error(`the engine does not know database ${id}`)
    const host = this.#takeReserve()
    this.#hosts.set(id, host)
    this.#owners.set(host, id)
    host.open(id, this.#options.pathOf(id), settings)
    return host
  }

  /** Ends the host of a database and forgets the database. */
  async forget(id: DatabaseId): Promise<void> {
    this.#settings.delete(id)
    clearTimeout(this.#timers.get(id))
    this.#timers.delete(id)
    await this.#hosts.get(id)?.end()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers.values()) clearTimeout(timer)
    const hosts = [...this.#hosts.values()]
    if (this.#reserve !== null) hosts.push(this.#reserve)
    await Promise.all(hosts.map((host) => host.end()))
  }

  #takeReserve(): EngineHost {
    const reserve = this.#reserve
    this.#reserve = null
    // a moment later, so that starting it does not compete with the request at hand
    setTimeout(() => {
      if (!this.#isClosed) this.#reserve ??= this.#start()
    }, 5).unref()
    return reserve !== null && !reserve.isDead ? reserve : this.#start()
  }

  #start(): EngineHost {
    if (this.#module === null) throw new Error('the engine has not been prepared')
    const host: EngineHost = new EngineHost(this.#module, () => {
      if (this.#reserve === host) this.#reserve = null
      const id = this.#owners.get(host)
      if (id === undefined) return
      this.#owners.delete(host)
      if (this.#hosts.get(id) === host) this.#hosts.delete(id)
      this.#options.onExit(id)
    })
    return host
  }

  #postponeEnd(id: DatabaseId): void {
    clearTimeout(this.#timers.get(id))
    const timer = setTimeout(() => {
      const host = this.#hosts.get(id)
      if (host === undefined) return
      if (host.isBusy || !this.#options.isIdle(id)) this.#postponeEnd(id)
      else void host.end()
    }, IDLE_MS).unref()
    this.#timers.set(id, timer)
  }
}
