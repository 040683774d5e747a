import type { DatabaseSettings, SchemaRole } from '@batonsql/server-common/backend'
import type { Dialect } from '@batonsql/server-common/hrana'
import { memoize, type Statement } from '@batonsql/server-common/sql'
import type { TableChanges } from '../protocol/worker-messages.ts'
import type { TextOutput } from './chunked-text.ts'
import { ClientConnection } from './client-connection.ts'
import { CommitCounter } from './commit-counter.ts'
import { MAIN_FILE } from './database-files.ts'
import { writeDump } from './dump.ts'
import type { EngineInstance } from './engine-instance.ts'
import { MAX_STORED_BYTES, MAX_VALUE_BYTES } from './limits.ts'
import { SqliteConnection } from './sqlite-connection.ts'
import { parseChecked } from './statement-parser.ts'
import { UsageMeter } from './usage-meter.ts'
import { WriteLock } from './write-lock.ts'

/** Number of connections that are kept for later clients. */
const MAX_SPARE_CONNECTIONS = 4
/** Longer SQL, such as a dump, is not kept parsed. */
const MAX_CACHED_CHARACTERS = 10_000

export interface DatabaseOptions {
  readonly id: string
  readonly settings: DatabaseSettings
  readonly role: SchemaRole
  /** Null to behave like libsql-server, except that no statement is silently dropped. */
  readonly dialect: Dialect | null
  /** Whether each commit is on disk before it is acknowledged. */
  readonly isDurable: boolean
  /** The number of commits when it was closed; null if that is unknown. */
  readonly lastIndex: bigint | null
  /** Called when a transaction that changed rows was committed, while `isWatched` is set. */
  onChanges(changes: readonly TableChanges[]): void
}

/** One database inside its worker, with the state that its connections share. */
export class Database {
  readonly id: string
  readonly role: SchemaRole
  readonly dialect: Dialect | null
  readonly meter = new UsageMeter()
  readonly #engine: EngineInstance
  /** Parses SQL text into statements. @throws ResultError for a syntax error */
  readonly parse: (text: string) => readonly Statement[]
  readonly #writeLock = new WriteLock()
  /** A connection without a database, where compiling a statement has no effect. */
  readonly #scratch: SqliteConnection
  readonly #isDurable: boolean
  readonly #onChanges: DatabaseOptions['onChanges']
  isWatched = false
  readonly #commits: CommitCounter
  #settings: DatabaseSettings
  readonly #spares: SqliteConnection[] = []
  /** Connections of running dumps. */
  readonly #dumps = new Set<SqliteConnection>()

  constructor(engine: EngineInstance, options: DatabaseOptions) {
    const { id, settings, role, dialect } = options
    this.id = id
    this.role = role
    this.dialect = dialect
    const check = (sql: string): string | null => this.#checkSyntax(sql)
    this.parse = memoize((text) => parseChecked(text, check, dialect === 'sqld'), MAX_CACHED_CHARACTERS)
    this.#onChanges = (changes) => options.onChanges(changes)
    this.#engine = engine
    this.#settings = settings
    this.#scratch = new SqliteConnection(engine, { name: '', file: ':memory:' })
    this.#isDurable = options.isDurable
    this.#commits = this.#createCommitCounter(options.lastIndex)
  }

  get settings(): DatabaseSettings {
    return this.#settings
  }

  /** Applies settings from the next statement on; a size limit applies only to connections opened later. */
  applySettings(settings: DatabaseSettings): void {
    this.#settings = settings
    for (const spare of this.#spares.splice(0)) spare.close()
  }

  get commitCount(): bigint {
    return this.#commits.count
  }

  /** Increases with each transaction that changes the database; null before the first one. Sent to clients. */
  get replicationIndex(): string | null {
    const { count } = this.#commits
    return count === 0n ? null : String(count)
  }

  /** Returns a connection for a client, in its initial state. */
  connect(): ClientConnection {
    const settings = this.#settings
    return new ClientConnection(this.#spares.pop() ?? this.#openConfigured(), this.#writeLock, {
      isWatched: () => this.isWatched,
      hasCommitted: () => this.#commits.detectCommit(),
      onChanges: this.#onChanges,
      onReusable: (connection) => this.#keep(connection, settings),
    })
  }

  /** Writes the current state of the database as statements. */
  async dump(call: number, preserveRowIds: boolean, output: TextOutput): Promise<void> {
    const settings = this.#settings
    const connection = this.#spares.pop() ?? this.#openConfigured()
    connection.call = call
    connection.limitLength(MAX_STORED_BYTES)
    this.#dumps.add(connection)
    try {
      connection.run('BEGIN')
      await writeDump(connection, preserveRowIds, output)
    } finally {
      this.#dumps.delete(connection)
      if (connection.isInTransaction) connection.run('ROLLBACK')
      connection.limitLength(MAX_VALUE_BYTES)
      this.#keep(connection, settings)
    }
  }

  /** Opens a connection in advance, while no request is pending. */
  prepareSpare(): void {
    if (this.#spares.length > 0) return
    try {
      this.#spares.push(this.#openConfigured())
    } catch {
      // the next request retries and reports the error
    }
  }

  /**
   * Closes all connections; called after all sessions have been closed. Closing the last connection checkpoints the WAL.
   * A suspended dump is not resumed afterwards.
   */
  close(): void {
    for (const connection of [...this.#spares.splice(0), ...this.#dumps]) connection.close()
    this.#commits.close()
  }

  /** Returns the message of the engine's error in an empty database; null if the statement compiles there. */
  #checkSyntax(sql: string): string | null {
    const message = this.#scratch.check(sql)
    // for a trigger, the engine looks up the table before it parses the rest; no table can be created with a reserved name
    const table = /^no such table: main\.(?!sqlite_)(.+)$/is.exec(message ?? '')?.[1]
    if (table === undefined) return message
    const name = `"${table.replaceAll('"', '""')}"`
    this.#scratch.run(`CREATE TABLE ${name} (a)`)
    try {
      return this.#scratch.check(sql)
    } finally {
      this.#scratch.run(`DROP TABLE ${name}`)
    }
  }

  /** Keeps a connection for a later client, unless settings were applied since it was opened; they are a new object each time. */
  #keep(connection: SqliteConnection, settings: DatabaseSettings): void {
    if (settings !== this.#settings || this.#spares.length >= MAX_SPARE_CONNECTIONS) return connection.close()
    if (connection.reset()) this.#spares.push(connection)
    else connection.close()
  }

  #createCommitCounter(lastIndex: bigint | null): CommitCounter {
    const observer = this.#openRaw()
    observer.run('PRAGMA journal_mode = WAL')
    return new CommitCounter(observer, lastIndex)
  }

  /** Opens a connection without limits and settings. */
  #openRaw(): SqliteConnection {
    return new SqliteConnection(this.#engine, { name: this.id, file: MAIN_FILE })
  }

  /** Opens a connection for a client or a dump. */
  #openConfigured(): SqliteConnection {
    const connection = this.#openRaw()
    connection.limitLength(MAX_VALUE_BYTES)
    connection.run(`PRAGMA synchronous = ${this.#isDurable ? 'FULL' : 'NORMAL'}`)
    const { sizeLimitBytes } = this.#settings
    if (sizeLimitBytes !== null) {
      const pageBytes = connection.readInteger('PRAGMA page_size')
      connection.run(`PRAGMA max_page_count = ${Math.max(1, Math.floor(sizeLimitBytes / pageBytes))}`)
    }
    return connection
  }
}
