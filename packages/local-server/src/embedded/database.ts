import type { DatabaseSettings } from '../backend.ts'
import { Connection } from './connection.ts'
import { type EngineConnection, type EngineStatement, openEngine } from './engine.ts'
import { ProgramTexts } from './program-text.ts'
import { type Clock, WriteQueue } from './write-queue.ts'

const PAGE_BYTES = 4_096

/** One database inside its engine host: what its connections share. */
export class Database {
  readonly id: string
  readonly texts: ProgramTexts = new ProgramTexts()
  readonly #path: string
  readonly #queue: WriteQueue
  #settings: DatabaseSettings
  readonly #observer: EngineConnection
  readonly #dataVersion: EngineStatement
  #lastVersion: number
  #commits: number
  #spare: EngineConnection | null = null

  constructor(id: string, path: string, settings: DatabaseSettings, clock: Clock) {
    this.id = id
    this.#path = path
    this.#settings = settings
    this.#queue = new WriteQueue(clock)
    this.#observer = openEngine(path)
    this.#observer.prepare('PRAGMA journal_mode = WAL').raw().iterate([]).next()
    const isNew = readNumber(this.#observer.prepare('SELECT count(*) FROM sqlite_schema')) === 0
    this.#dataVersion = this.#observer.prepare('PRAGMA data_version')
    this.#lastVersion = readNumber(this.#dataVersion)
    // the index must grow over restarts too; nobody commits more than once a millisecond for long
    this.#commits = isNew ? 0 : clock.now()
  }

  get settings(): DatabaseSettings {
    return this.#settings
  }

  /** Takes effect on the next statement; a size limit on connections opened from now on. */
  applySettings(settings: DatabaseSettings): void {
    this.#settings = settings
    this.#spare?.close()
    this.#spare = null
  }

  /** How many transactions have changed the database, as the wire shows it; null before the first. */
  get replicationIndex(): string | null {
    return this.#commits === 0 ? null : String(this.#commits)
  }

  /** A connection in its original state; nothing of an earlier one shows. */
  connect(): Connection {
    const engine = this.#spare ?? this.#open()
    this.#spare = null
    return new Connection(engine, this.#queue, () => this.#countCommit())
  }

  /** Opens a connection ahead of need, while nobody waits for it. */
  prepareSpare(): void {
    this.#spare ??= this.#open()
  }

  /** A connection beside the one that wrote sees whether anything has changed. */
  #countCommit(): void {
    const version = readNumber(this.#dataVersion)
    if (version !== this.#lastVersion) this.#commits += 1
    this.#lastVersion = version
  }

  #open(): EngineConnection {
    const engine = openEngine(this.#path)
    engine.exec('PRAGMA synchronous = NORMAL')
    const { sizeLimitBytes } = this.#settings
    if (sizeLimitBytes !== null) {
      const pages = Math.max(1, Math.floor(sizeLimitBytes / PAGE_BYTES))
      readNumber(engine.prepare(`PRAGMA max_page_count = ${pages}`))
    }
    return engine
  }
}

function readNumber(statement: EngineStatement): number {
  const rows = statement.raw().iterate([])
  const row = rows.next().value as readonly bigint[]
  rows.next()
  return Number(row[0])
}
