import type { DatabaseId, DatabaseSettings, SchemaRole } from '../backend.ts'
import type { Dialect } from '../dialect.ts'
import { ChangeFeed } from './change-feed.ts'
import { DatabaseHosts } from './database-hosts.ts'
import { EngineHost } from './engine-host.ts'
import { engineModule } from './engine-module.ts'
import type { Answer, Question, StatementUsage } from './protocol/host-messages.ts'

/** A host nobody has needed for so long gives up its database; the next request opens it again. */
const IDLE_MS = 5_000
const SWEEP_MS = 1_000
/** Hosts without a database that are kept. */
const MAX_RESERVE = 2
/** Above so many open databases, the one that was not needed for the longest time is closed for the next one. */
const MAX_OPEN = 16
/** For so long nobody has got a place: then all are taken by what takes long, and there is a worker more. */
const MAX_WAIT_MS = 200
const WAIT_STEP_MS = 1

/** Somebody who waits for a place among the open databases. */
interface Waiting {
  readonly since: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/** What the table has to know about databases. */
export interface HostTableOptions {
  pathOf(id: DatabaseId): string
  roleOf(id: DatabaseId): SchemaRole
  readonly isKept: boolean
  readonly dialect: Dialect | null
  /** The worker of a database needs something of others. Never rejects. */
  onAsk(id: DatabaseId, question: Question): Promise<Answer>
  /** Whether no stream of the database is open. */
  isIdle(id: DatabaseId): boolean
  /** A database has no host any more, and its streams have ended. */
  onExit(id: DatabaseId): void
  /** A worker of the database has read or written something. */
  onUsage(id: DatabaseId, usage: readonly StatementUsage[]): void
}

/** The engine hosts of a server: those of each database in use, and some in reserve so that nobody waits for a start. */
export class HostTable {
  readonly #options: HostTableOptions
  readonly #hosts = new Map<DatabaseId, DatabaseHosts>()
  readonly #settings = new Map<DatabaseId, DatabaseSettings>()
  readonly #lastUse = new Map<DatabaseId, number>()
  readonly #feeds = new Map<DatabaseId, ChangeFeed>()
  readonly #owners = new Map<EngineHost, DatabaseId>()
  /** Databases that are being migrated. */
  readonly #migrating = new Set<DatabaseId>()
  #module: WebAssembly.Module | null = null
  #reserve: EngineHost[] = []
  readonly #waiting: Waiting[] = []
  /** Places that were given and are about to be taken. */
  #given = 0
  #lastGivenAt = 0
  /** Databases that are being closed. */
  readonly #closing = new Set<DatabaseId>()
  #usher: NodeJS.Timeout | null = null
  #sweeper: NodeJS.Timeout | null = null
  #isClosed = false

  constructor(options: HostTableOptions) {
    this.#options = options
  }

  /** Starts the reserve and with it proves that the engine works here; resolves with the engine's version. */
  async prepare(): Promise<string> {
    this.#module = await engineModule()
    const [first = this.#start()] = this.#reserve
    this.#reserve = [first]
    return await first.ready
  }

  configure(id: DatabaseId, settings: DatabaseSettings): void {
    this.#settings.set(id, settings)
    this.#apply(id)
  }

  /** Keeps everybody but migrations from writing to a database, or no longer. */
  block(id: DatabaseId, isBlocked: boolean): void {
    if (isBlocked) this.#migrating.add(id)
    else this.#migrating.delete(id)
    this.#apply(id)
  }

  settingsOf(id: DatabaseId): DatabaseSettings | undefined {
    return this.#settings.get(id)
  }

  find(id: DatabaseId): DatabaseHosts | undefined {
    return this.#hosts.get(id)
  }

  /** The hosts of a database, which is opened when it is not: that may have to wait until another one is closed. */
  get(id: DatabaseId): DatabaseHosts | Promise<DatabaseHosts> {
    if (this.#isClosed) throw new Error('the server is closed')
    this.#lastUse.set(id, performance.now())
    return this.#hosts.get(id) ?? (this.#hasRoom ? this.#open(id) : this.#openLater(id))
  }

  async #openLater(id: DatabaseId): Promise<DatabaseHosts> {
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push({ since: performance.now(), resolve, reject })
      this.#makeRoom()
    })
    this.#given -= 1
    // somebody else may have waited for the same one
    return this.#hosts.get(id) ?? this.#open(id)
  }

  #open(id: DatabaseId): DatabaseHosts {
    const settings = this.#effectiveSettings(id)
    if (settings === undefined) throw new Error(`the engine does not know database ${id}`)
    const take = (): EngineHost => {
      const host = this.#takeReserve()
      this.#owners.set(host, id)
      return host
    }
    const path = this.#options.pathOf(id)
    const { dialect, isKept } = this.#options
    const role = this.#options.roleOf(id)
    const hosts = new DatabaseHosts({ id, path, role, dialect, isKept, settings, take })
    this.#hosts.set(id, hosts)
    if (this.#feeds.get(id)?.isWatched) hosts.watch(true)
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS).unref()
    return hosts
  }

  get #hasRoom(): boolean {
    return this.#waiting.length === 0 && this.#hosts.size + this.#given < MAX_OPEN
  }

  /** Whether no place can be expected soon: clients hold them all with open streams, or statements take long. */
  #isStuck({ since }: Waiting): boolean {
    if (performance.now() - Math.max(since, this.#lastGivenAt) > MAX_WAIT_MS) return true
    if (this.#closing.size > 0) return false
    return [...this.#hosts].every(([id, hosts]) => !hosts.isBusy && this.#isInUse(id, hosts))
  }

  /** Lets those in who wait for a place, and closes databases for the others. */
  #makeRoom(): void {
    for (let [next] = this.#waiting; next !== undefined; [next] = this.#waiting) {
      if (this.#hosts.size + this.#given >= MAX_OPEN && !this.#isStuck(next)) break
      this.#waiting.shift()
      this.#given += 1
      this.#lastGivenAt = performance.now()
      next.resolve()
    }
    const missing = this.#waiting.length - this.#closing.size
    if (missing > 0) this.#releaseLongestUnused(missing)
    if (this.#waiting.length === 0 || this.#usher !== null) return
    this.#usher = setTimeout(() => {
      this.#usher = null
      this.#makeRoom()
    }, WAIT_STEP_MS)
  }

  /** The committed changes of a database. */
  feedOf(id: DatabaseId): ChangeFeed {
    let feed = this.#feeds.get(id)
    if (feed === undefined) {
      feed = new ChangeFeed((isWatched) => {
        this.#hosts.get(id)?.watch(isWatched)
        if (!isWatched) this.#feeds.delete(id)
      })
      this.#feeds.set(id, feed)
    }
    return feed
  }

  /** Ends the change streams of a database. */
  endFeed(id: DatabaseId): void {
    this.#feeds.get(id)?.end()
  }

  /** Forgets a database whose files are about to be removed. */
  async forget(id: DatabaseId): Promise<void> {
    this.#settings.delete(id)
    this.endFeed(id)
    this.#lastUse.delete(id)
    await this.#hosts.get(id)?.release({ keep: false })
  }

  /** Opens a copy of a database and closes it: everything is in its file then, which is one for every program. */
  async settle(id: DatabaseId, path: string): Promise<void> {
    const settings = this.#settings.get(id)
    if (settings === undefined) throw new Error(`the engine does not know database ${id}`)
    const copy = {
      id,
      path,
      settings: { ...settings, sizeLimitBytes: null },
      role: 'plain' as const,
      dialect: null,
    }
    const hosts = new DatabaseHosts({
      ...copy,
      isKept: this.#options.isKept,
      take: () => this.#takeReserve(),
    })
    await hosts.release({ keep: true })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const feed of this.#feeds.values()) feed.end()
    if (this.#sweeper !== null) clearInterval(this.#sweeper)
    if (this.#usher !== null) clearTimeout(this.#usher)
    for (const { reject } of this.#waiting.splice(0)) reject(new Error('the server is closed'))
    await Promise.all([...this.#hosts.values(), ...this.#reserve].map((hosts) => hosts.end()))
  }

  #effectiveSettings(id: DatabaseId): DatabaseSettings | undefined {
    const settings = this.#settings.get(id)
    return settings && this.#migrating.has(id)
      ? { ...settings, blockWrites: true, blockReason: 'the database is being migrated' }
      : settings
  }

  #apply(id: DatabaseId): void {
    const settings = this.#effectiveSettings(id)
    if (settings !== undefined) this.#hosts.get(id)?.applySettings(settings)
  }

  #takeReserve(): EngineHost {
    const reserve = this.#reserve.shift()
    // a moment later, so that starting it does not compete with the request at hand
    setTimeout(() => {
      if (!this.#isClosed && this.#reserve.length === 0 && this.#hosts.size < MAX_OPEN)
        this.#reserve.push(this.#start())
    }, 5).unref()
    return reserve ?? this.#start()
  }

  #start(): EngineHost {
    if (this.#module === null) throw new Error('the engine has not been prepared')
    const host: EngineHost = new EngineHost(this.#module, {
      onChanges: (changes) => {
        const id = this.#owners.get(host)
        if (id !== undefined) this.#feeds.get(id)?.publish(changes)
      },
      onAsk: async (question) => {
        const id = this.#owners.get(host)
        return id === undefined ? 'the database is closed' : await this.#options.onAsk(id, question)
      },
      onUsage: (usage) => {
        const id = this.#owners.get(host)
        if (id !== undefined) this.#options.onUsage(id, usage)
      },
      onExit: () => {
        const id = this.#owners.get(host)
        // what it committed last may not have been reported
        if (id !== undefined && this.#hosts.get(id)?.isWriter(host)) this.#feeds.get(id)?.reportLoss()
        this.#reserve = this.#reserve.filter((other) => other !== host)
        this.#disown(host)
      },
      onReleased: () => {
        this.#disown(host)
        const isKept = this.#reserve.length < Math.max(MAX_RESERVE, this.#waiting.length)
        if (this.#isClosed || !isKept) void host.end()
        else this.#reserve.push(host)
        this.#makeRoom()
      },
    })
    return host
  }

  #disown(host: EngineHost): void {
    const id = this.#owners.get(host)
    if (id === undefined) return
    this.#owners.delete(host)
    if (this.#hosts.get(id)?.lost(host) !== true) return
    this.#hosts.delete(id)
    this.#options.onExit(id)
  }

  #sweep(): void {
    const due = performance.now() - IDLE_MS
    for (const [id, hosts] of this.#hosts) {
      if ((this.#lastUse.get(id) ?? 0) <= due) this.#releaseUnused(id, hosts)
    }
    if (this.#hosts.size > 0 || this.#sweeper === null) return
    clearInterval(this.#sweeper)
    this.#sweeper = null
  }

  #releaseLongestUnused(count: number): void {
    const unused = [...this.#hosts].filter(
      ([id, hosts]) => !this.#closing.has(id) && !this.#isInUse(id, hosts),
    )
    const useOf = ([id]: (typeof unused)[number]): number => this.#lastUse.get(id) ?? 0
    unused.sort((a, b) => useOf(a) - useOf(b))
    for (const [id, hosts] of unused.slice(0, count)) this.#releaseUnused(id, hosts)
  }

  #releaseUnused(id: DatabaseId, hosts: DatabaseHosts): void {
    if (this.#closing.has(id) || this.#isInUse(id, hosts)) return
    this.#closing.add(id)
    void hosts
      .releaseUnless(() => this.#isInUse(id, hosts))
      .catch(() => {}) // whoever comes next is told
      .finally(() => this.#closing.delete(id))
  }

  #isInUse(id: DatabaseId, hosts: DatabaseHosts): boolean {
    return hosts.isBusy || !this.#options.isIdle(id)
  }
}
