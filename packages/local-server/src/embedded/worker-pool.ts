import { existsSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type DatabaseToOpen,
  DatabaseWorker,
  loadEngineModule,
  type WorkerListener,
} from '@batonsql/embedded-engine'
import {
  type DatabaseId,
  type DatabaseSettings,
  DEFAULT_SETTINGS,
  hasDatabaseFile,
  MissingFileError,
  type SchemaRole,
} from '@batonsql/server-common/backend'
import type { Dialect } from '@batonsql/server-common/hrana'
import { ChangeFeed } from './change-feed.ts'

/** Idle time after which a database is closed; the next request opens it again. */
const IDLE_MS = 5_000
/** How often idle databases are closed. */
const SWEEP_MS = 1_000
/** Maximum number of open databases; to open another one, the least recently used one is closed. */
const MAX_OPEN = 16
/**
 * Maximum number of open databases that are new, that is, were not reopened soon after an eviction. A client that queries hundreds
 * of databases in turn uses only this many threads, each of which takes about 20 MB, and does not evict databases that are used
 * repeatedly.
 */
const MAX_NEW = Math.min(MAX_OPEN, Math.max(4, availableParallelism()))
/** Number of evicted databases that are remembered: they do not count as new when they are opened again. */
const MAX_EVICTED = 64
/**
 * How long a database waits for another one to be closed before an additional worker is started. The wait is shorter if fewer
 * than `MAX_OPEN` databases are open.
 */
const MAX_WAIT_MS = 200
const SHORT_WAIT_MS = 20
const WAIT_INTERVAL_MS = 1
/** Number of workers without a database that are kept, apart from those that had one within `IDLE_MS`. */
const MAX_SPARE_WORKERS = 2
/** How long after a database was opened a spare worker for the next one is started. */
const SPARE_DELAY_MS = 5

export interface WorkerPoolOptions extends Pick<WorkerListener, 'onRequest' | 'onUsage'> {
  getPath(id: DatabaseId): string
  getRole(id: DatabaseId): SchemaRole
  readonly isDurable: boolean
  readonly dialect: Dialect | null
  /** Whether the database has no open stream. */
  isIdle(id: DatabaseId): boolean
  /** Called after a database and its streams have been closed. */
  onClosed(id: DatabaseId): void
}

/** Holds the workers of open databases, and spare workers, so that no request waits for a thread to start. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions
  /** Least recently used first. */
  readonly #workers = new Map<DatabaseId, DatabaseWorker>()
  /** Open databases that had not been evicted shortly before they were opened. */
  readonly #newIds = new Set<DatabaseId>()
  /** Databases that were closed to make room for others, oldest first. */
  readonly #evictedIds = new Set<DatabaseId>()
  /** The replication indexes of databases that were closed. */
  readonly #indexes = new Map<DatabaseId, bigint>()
  readonly #settings = new Map<DatabaseId, DatabaseSettings>()
  readonly #feeds = new Map<DatabaseId, ChangeFeed>()
  readonly #migrating = new Set<DatabaseId>()
  #module: WebAssembly.Module | null = null
  #spares: DatabaseWorker[] = []
  /** The last queued opening of a database. Openings that wait for room proceed one at a time. */
  #opening: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #sweeper: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: WorkerPoolOptions) {
    this.#options = options
  }

  /** Starts a spare worker, to check that the engine works. @returns the version of the engine */
  async prepare(): Promise<string> {
    this.#module = await loadEngineModule()
    const worker = this.#start()
    this.#spares = [worker]
    return await worker.ready
  }

  /** Replaces the settings of a database, which make it known to the engine. */
  configure(id: DatabaseId, settings: DatabaseSettings): void {
    this.#settings.set(id, settings)
    this.#apply(id)
  }

  /** Blocks or unblocks writes to a database, except by migrations. */
  block(id: DatabaseId, isBlocked: boolean): void {
    if (isBlocked) this.#migrating.add(id)
    else this.#migrating.delete(id)
    this.#apply(id)
  }

  getSettings(id: DatabaseId): DatabaseSettings | undefined {
    return this.#settings.get(id)
  }

  /** Returns the worker of a database that is open. */
  find(id: DatabaseId): DatabaseWorker | undefined {
    return this.#workers.get(id)
  }

  /** Returns the worker of a database, and opens the database if necessary, which may have to wait until another one is closed. */
  get(id: DatabaseId): DatabaseWorker | Promise<DatabaseWorker> {
    if (this.#isClosed) throw new Error('the server is closed')
    const worker = this.#workers.get(id)
    if (worker === undefined)
      return this.#waiting === 0 && this.#hasRoom(id) ? this.#openNow(id) : this.#openLater(id)
    this.#workers.delete(id)
    this.#workers.set(id, worker)
    worker.lastUsedAt = performance.now()
    return worker
  }

  #openNow(id: DatabaseId): DatabaseWorker {
    const settings = this.#getEffectiveSettings(id)
    const { dialect, isDurable } = this.#options
    const path = this.#options.getPath(id)
    const role = this.#options.getRole(id)
    // a database without settings has just been removed
    if (settings === undefined || !hasDatabaseFile(path)) throw new MissingFileError()
    const lastIndex = this.#indexes.get(id) ?? null
    this.#indexes.delete(id)
    const worker = this.#openWith({ id, path, role, dialect, isDurable, settings, lastIndex })
    this.#workers.set(id, worker)
    if (!this.#evictedIds.delete(id)) this.#newIds.add(id)
    worker.lastUsedAt = performance.now()
    if (this.#feeds.get(id)?.isWatched) worker.watch(true)
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS).unref()
    return worker
  }

  async #openLater(id: DatabaseId): Promise<DatabaseWorker> {
    this.#waiting += 1
    const opening = this.#opening.then(async () => {
      // the previous caller begins its call first; otherwise its database would be evicted as unused
      await nextTurn()
      await this.#makeRoom(id)
      if (this.#isClosed) throw new Error('the server is closed')
      // another request may have opened the same database
      return this.#workers.get(id) ?? this.#openNow(id)
    })
    this.#opening = opening.catch(() => {})
    return await opening.finally(() => {
      this.#waiting -= 1
    })
  }

  #hasRoom(id: DatabaseId): boolean {
    return this.#workers.size < MAX_OPEN && (this.#evictedIds.has(id) || this.#newIds.size < MAX_NEW)
  }

  /**
   * Waits until there is room, up to a deadline. Evicts the least recently used new database that is idle, or else the least
   * recently used idle one. Returns at once if no database can become idle by itself.
   */
  async #makeRoom(id: DatabaseId): Promise<void> {
    const deadline = performance.now() + (this.#workers.size < MAX_OPEN ? SHORT_WAIT_MS : MAX_WAIT_MS)
    while (!this.#hasRoom(id) && performance.now() < deadline && !this.#isClosed) {
      const workers = [...this.#workers]
      const unused = workers.filter(([openId, worker]) => !this.#isInUse(openId, worker))
      const [unusedId] = unused.find(([openId]) => this.#newIds.has(openId)) ?? unused[0] ?? []
      if (unusedId !== undefined) await this.#evict(unusedId)
      else if (workers.some(([, worker]) => worker.isBusy))
        await new Promise((resolve) => setTimeout(resolve, WAIT_INTERVAL_MS))
      else return
    }
  }

  async #evict(id: DatabaseId): Promise<void> {
    this.#evictedIds.add(id)
    const [oldest] = this.#evictedIds
    if (this.#evictedIds.size > MAX_EVICTED && oldest !== undefined) this.#evictedIds.delete(oldest)
    await this.#workers.get(id)?.release({ keepsFiles: true })
  }

  getFeed(id: DatabaseId): ChangeFeed {
    let feed = this.#feeds.get(id)
    if (feed === undefined) {
      feed = new ChangeFeed((isWatched) => {
        this.#workers.get(id)?.watch(isWatched)
        if (!isWatched) this.#feeds.delete(id)
      })
      this.#feeds.set(id, feed)
    }
    return feed
  }

  closeFeed(id: DatabaseId): void {
    this.#feeds.get(id)?.end()
  }

  /** Closes a database whose files are about to be removed. */
  async forget(id: DatabaseId): Promise<void> {
    this.#settings.delete(id)
    this.#evictedIds.delete(id)
    this.#indexes.delete(id)
    this.closeFeed(id)
    await this.#workers.get(id)?.release({ keepsFiles: false })
  }

  /** Writes the WAL of a copy, if there is one, into the file, so that all programs can read it. @throws Error if the disk is full */
  async completeCopy(id: DatabaseId, path: string): Promise<void> {
    if (!existsSync(`${path}-wal`)) return
    // the name that the engine uses, so that it is not mistaken for the WAL of another program
    await rename(`${path}-wal`, `${path}.wal`)
    const { isDurable } = this.#options
    const copy = { id, path, role: 'plain', dialect: null, isDurable, settings: DEFAULT_SETTINGS } as const
    const worker = this.#openWith({ ...copy, lastIndex: null })
    await worker.release({ keepsFiles: true })
    if (existsSync(`${path}.wal`) || existsSync(`${path}-wal`)) {
      const reason = 'the WAL of a copy could not be checkpointed into its file (is the disk full?)'
      throw new Error(this.#isClosed ? 'the server is closed' : reason)
    }
  }

  /** Ends all workers at once, without closing their databases. */
  async abandon(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#workers.values(), ...this.#spares].map((worker) => worker.terminate()))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const feed of this.#feeds.values()) feed.end()
    clearInterval(this.#sweeper)
    await Promise.all([...this.#workers.values(), ...this.#spares].map((worker) => worker.shutDown()))
  }

  #getEffectiveSettings(id: DatabaseId): DatabaseSettings | undefined {
    const settings = this.#settings.get(id)
    return settings && this.#migrating.has(id)
      ? { ...settings, blockWrites: true, blockReason: 'the database is being migrated' }
      : settings
  }

  #apply(id: DatabaseId): void {
    const settings = this.#getEffectiveSettings(id)
    if (settings !== undefined) this.#workers.get(id)?.applySettings(settings)
  }

  #openWith(database: DatabaseToOpen): DatabaseWorker {
    // the last one has been used most recently
    const worker = this.#spares.pop() ?? this.#start()
    worker.open(database)
    // A server with one database needs no spare worker. Delayed, so that starting one does not compete with the current request.
    setTimeout(() => {
      const needsSpare = this.#workers.size > 1 && this.#workers.size < MAX_OPEN
      if (!this.#isClosed && this.#spares.length === 0 && needsSpare) this.#spares.push(this.#start())
    }, SPARE_DELAY_MS).unref()
    return worker
  }

  #start(): DatabaseWorker {
    if (this.#module === null) throw new Error('the engine has not been prepared')
    return new DatabaseWorker(this.#module, {
      onChanges: (id, changes) => this.#feeds.get(id)?.publish(changes),
      onRequest: this.#options.onRequest,
      onUsage: this.#options.onUsage,
      onClosed: (worker, id) => this.#onWorkerClosed(worker, id),
    })
  }

  #onWorkerClosed(worker: DatabaseWorker, id: DatabaseId | null): void {
    if (worker.hasExited) this.#spares = this.#spares.filter((spare) => spare !== worker)
    else if (this.#isClosed || !worker.isReusable || this.#spares.length >= MAX_OPEN) void worker.shutDown()
    else this.#spares.push(worker)
    // the database of a copy is not in the map
    if (id === null || this.#workers.get(id) !== worker) return
    // the last commit of a worker that died may not have been reported
    if (worker.hasExited) this.#feeds.get(id)?.reportLoss()
    else if (worker.lastIndex !== null && this.#settings.has(id)) this.#indexes.set(id, worker.lastIndex)
    this.#workers.delete(id)
    this.#newIds.delete(id)
    this.#options.onClosed(id)
  }

  #sweep(): void {
    const idleSince = performance.now() - IDLE_MS
    for (const [id, worker] of this.#workers) {
      if (worker.lastUsedAt > idleSince) break
      if (!this.#isInUse(id, worker)) void worker.release({ keepsFiles: true })
    }
    const excess = Math.max(0, this.#spares.length - MAX_SPARE_WORKERS)
    this.#endSpares(this.#spares.filter(({ lastUsedAt }) => lastUsedAt <= idleSince).slice(0, excess))
    if (this.#workers.size > 0) return
    // keeps one; the rest take up memory, and are started again when several databases are in use
    this.#endSpares(this.#spares.slice(1))
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
  }

  #endSpares(ended: readonly DatabaseWorker[]): void {
    this.#spares = this.#spares.filter((spare) => !ended.includes(spare))
    for (const spare of ended) void spare.shutDown()
  }

  #isInUse(id: DatabaseId, worker: DatabaseWorker): boolean {
    return worker.isBusy || !this.#options.isIdle(id)
  }
}
