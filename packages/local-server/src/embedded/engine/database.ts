import type { DatabaseSettings, SchemaRole } from '../../backend/backend.ts'
import type { Clock } from '../../base/clock.ts'
import type { Dialect } from '../../hrana/dialect.ts'
import type { Statement } from '../../sql/statement.ts'
import type { TableChanges } from '../protocol/worker-messages.ts'
import { ClientConnection } from './client-connection.ts'
import { CommitCounter } from './commit-counter.ts'
import { MAIN_FILE } from './database-files.ts'
import { type DumpOutput, writeDump } from './dump.ts'
import type { EngineInstance } from './engine-instance.ts'
import { MAX_VALUE_BYTES } from './limits.ts'
import { ProgramTexts } from './program-text.ts'
import { SqliteConnection, SqliteError } from './sqlite-connection.ts'
import { UsageMeter } from './usage-meter.ts'
import { WriteQueue } from './write-queue.ts'

/** Connections that are kept for the next client. */
const MAX_SPARES = 4

/** What a database is opened with. */
export interface DatabaseOptions {
  readonly id: string
  readonly settings: DatabaseSettings
  readonly role: SchemaRole
  /** Null for libsql-server without what loses data. */
  readonly dialect: Dialect | null
  /** Whether each commit is on the disk before it is acknowledged. */
  readonly isKept: boolean
  readonly clock: Clock
  /** A transaction has been committed that changed rows; called while `isWatched` is set. */
  onChanges(changes: readonly TableChanges[]): void
}

/** One database inside its worker: what its connections share. */
export class Database {
  readonly id: string
  readonly role: SchemaRole
  readonly dialect: Dialect | null
  readonly meter = new UsageMeter()
  readonly #engine: EngineInstance
  readonly #texts: ProgramTexts
  readonly #queue: WriteQueue
  /** A connection without a database: what is compiled there has no effect. */
  readonly #scratch: SqliteConnection
  readonly #isKept: boolean
  readonly #onChanges: DatabaseOptions['onChanges']
  /** Whether changes are reported. */
  isWatched = false
  readonly #commits: CommitCounter
  #settings: DatabaseSettings
  readonly #spares: SqliteConnection[] = []
  /** Connections that dumps on their way read from. */
  readonly #dumps = new Set<SqliteConnection>()

  constructor(engine: EngineInstance, options: DatabaseOptions) {
    const { id, settings, role, dialect, clock } = options
    this.id = id
    this.role = role
    this.dialect = dialect
    this.#texts = new ProgramTexts(dialect === 'sqld')
    this.#onChanges = (changes) => options.onChanges(changes)
    this.#engine = engine
    this.#settings = settings
    this.#queue = new WriteQueue(clock)
    this.#scratch = new SqliteConnection(engine, { name: '', file: ':memory:' })
    this.#isKept = options.isKept
    this.#commits = this.#countCommits(clock)
  }

  get settings(): DatabaseSettings {
    return this.#settings
  }

  /** Takes effect on the next statement; a size limit on connections opened from now on. */
  applySettings(settings: DatabaseSettings): void {
    this.#settings = settings
    for (const spare of this.#spares.splice(0)) spare.close()
  }

  /** How many transactions have changed the database, as the wire shows it; null before the first. */
  get replicationIndex(): string | null {
    const { count } = this.#commits
    return count === 0n ? null : String(count)
  }

  /** The statements of a text. @throws ResultError when one of them has no valid syntax */
  parse(text: string): readonly Statement[] {
    return this.#texts.parse(text, (sql) => this.#checkSyntax(sql))
  }

  /** A connection in its original state; nothing of an earlier one shows. */
  connect(): ClientConnection {
    const settings = this.#settings
    return new ClientConnection(this.#spares.pop() ?? this.#open(), this.#queue, {
      isWatched: () => this.isWatched,
      hasCommitted: () => this.#commits.look(),
      onChanges: this.#onChanges,
      onUnused: (engine) => this.#keep(engine, settings),
    })
  }

  /** Writes the database as statements, in the state it has now. */
  async dump(call: number, preserveRowIds: boolean, output: DumpOutput): Promise<void> {
    const settings = this.#settings
    const engine = this.#spares.pop() ?? this.#open()
    engine.call = call
    engine.limitLength(2 ** 30) // what is in the file by other ways is dumped too
    this.#dumps.add(engine)
    try {
      engine.run('BEGIN')
      await writeDump(engine, preserveRowIds, output)
    } finally {
      this.#dumps.delete(engine)
      if (engine.inTransaction) engine.run('ROLLBACK')
      engine.limitLength(MAX_VALUE_BYTES)
      this.#keep(engine, settings)
    }
  }

  /** Opens a connection ahead of need, while no request waits. */
  prepareSpare(): void {
    if (this.#spares.length > 0) return
    try {
      this.#spares.push(this.#open())
    } catch {
      // the next request tries again and reports why
    }
  }

  /** To be called after the sessions are closed: the last connection moves what is in the journal to the file. */
  close(): void {
    for (const engine of [...this.#spares.splice(0), ...this.#dumps]) engine.close()
    this.#commits.close()
  }

  #checkSyntax(sql: string): void {
    try {
      this.#scratch.prepare(sql, { write: true })?.finalize()
    } catch (error) {
      // of a trigger the engine looks for the table before it reads on
      const table =
        error instanceof SqliteError ? /^no such table: main\.(.+)$/s.exec(error.message)?.[1] : undefined
      if (table === undefined) throw error
      const name = `"${table.replaceAll('"', '""')}"`
      this.#scratch.run(`CREATE TABLE ${name} (a)`)
      try {
        this.#scratch.prepare(sql, { write: true })?.finalize()
      } finally {
        this.#scratch.run(`DROP TABLE ${name}`)
      }
    }
  }

  /** Keeps a connection for the next client, unless it was opened under other settings. */
  #keep(engine: SqliteConnection, settings: DatabaseSettings): void {
    if (settings !== this.#settings || this.#spares.length >= MAX_SPARES) return engine.close()
    if (engine.reset()) this.#spares.push(engine)
    else engine.close()
  }

  #countCommits(clock: Clock): CommitCounter {
    const observer = this.#connection()
    observer.run('PRAGMA journal_mode = WAL')
    return new CommitCounter(observer, clock)
  }

  #connection(): SqliteConnection {
    return new SqliteConnection(this.#engine, { name: this.id, file: MAIN_FILE })
  }

  #open(): SqliteConnection {
    const engine = this.#connection()
    engine.limitLength(MAX_VALUE_BYTES)
    engine.run(`PRAGMA synchronous = ${this.#isKept ? 'FULL' : 'NORMAL'}`)
    const { sizeLimitBytes } = this.#settings
    if (sizeLimitBytes !== null) {
      const pageBytes = engine.readInteger('PRAGMA page_size')
      engine.run(`PRAGMA max_page_count = ${Math.max(1, Math.floor(sizeLimitBytes / pageBytes))}`)
    }
    return engine
  }
}
