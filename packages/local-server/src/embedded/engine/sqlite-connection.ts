import type { EngineValue } from '../../hrana/pipeline-types.ts'
import type { ChangeWatcher, EngineInstance, Grant, Pointer } from './engine-instance.ts'

const OK = 0
const OUT_OF_MEMORY = 7
const LIMIT_LENGTH = 0
const ROW = 100
const DONE = 101
const TOO_BIG = 18
/** Of the module's own. */
const VALUE_TOO_BIG = 1001
const TEXT_NOT_UTF8 = 1002
const COUNTER_ROWS_READ = 1025
const COUNTER_ROWS_WRITTEN = 1026

/** An error of the engine. */
export class SqliteError extends Error {
  /** SQLite's extended result code. */
  readonly code: number
  /** Bytes before the piece of SQL the error is about; -1 when it is about none. */
  readonly offset: number

  constructor(message: string, code: number, offset: number) {
    super(message)
    this.code = code
    this.offset = offset
  }
}

/** A text of a result that is not UTF-8: it has no JSON form. */
export class TextEncodingError extends Error {}

/** A statement would do what it has no permission for. */
export class DeniedError extends Error {}

export interface SqliteColumn {
  readonly name: string
  readonly decltype: string | null
}

/** Some rows of a statement as JSON. */
export interface SqliteRows {
  /** Separated by commas, or each as a line of a cursor. */
  readonly text: string
  readonly count: number
  /** What columns and rows count towards the limit of an answer; 0 for lines of a cursor, which have none. */
  readonly sizeBytes: number
  readonly isDone: boolean
}

/** How rows are asked for. */
export interface RowsOptions {
  /** Rows are handed over once the lines are longer, or the result counts more than this, in bytes. */
  readonly limitBytes: number
  /** Whether each row becomes a line of a cursor. */
  readonly asLines: boolean
  /** Largest text or blob, in bytes. */
  readonly maxValueBytes: number
}

/** What a connection is opened with. */
export interface ConnectionOptions {
  /** What `libsql_server_database_name()` answers. */
  readonly name: string
  /** A name that `DatabaseFiles` knows, or `:memory:`. */
  readonly file: string
}

/** A connection of the engine to its database. */
export class SqliteConnection {
  readonly #engine: EngineInstance
  readonly #pointer: Pointer
  /** Not finalized. */
  readonly #statements = new Set<SqliteStatement>()
  /** The number of the call it works for; 0 for none. */
  call = 0

  /** @throws Error when the file cannot be opened */
  constructor(engine: EngineInstance, { name, file }: ConnectionOptions) {
    this.#engine = engine
    const texts = [file, name].map((text) => engine.put(Buffer.from(text)))
    this.#pointer = engine.api.baton_open(texts[0] as Pointer, texts[1] as Pointer, 0)
    for (const text of texts) engine.api.free(text)
    if (this.#pointer === 0) throw new Error('the database file cannot be opened')
  }

  get inTransaction(): boolean {
    return this.#engine.api.sqlite3_get_autocommit(this.#pointer) === 0
  }

  /** Rows the last change has affected. */
  get changes(): number {
    return Number(this.#engine.api.sqlite3_changes64(this.#pointer))
  }

  get lastInsertRowid(): bigint {
    return this.#engine.api.sqlite3_last_insert_rowid(this.#pointer)
  }

  /**
   * Compiles the one statement of a text; null when there is none. Compiling a change of a vector index has its
   * effect already, so nothing is compiled that shall not run.
   * @throws SqliteError, and DeniedError for what `grant` does not cover
   */
  prepare(sql: string, grant: Grant): SqliteStatement | null {
    const { api, scratch } = this.#engine
    const bytes = Buffer.from(sql)
    const text = this.#engine.put(bytes)
    try {
      this.#engine.grant(grant)
      const code = this.work(() => api.sqlite3_prepare_v3(this.#pointer, text, bytes.length, 0, scratch, 0))
      if (code !== OK) {
        if (api.baton_was_denied() !== 0)
          throw new DeniedError(this.#engine.text(api.sqlite3_errmsg(this.#pointer)))
        throw this.error()
      }
    } finally {
      api.free(text)
    }
    const pointer = this.#engine.pointerAt(scratch)
    if (pointer === 0) return null
    const statement = new SqliteStatement(this, this.#engine, pointer, grant)
    this.#statements.add(statement)
    return statement
  }

  /** To be called when a statement has been finalized. */
  forget(statement: SqliteStatement): void {
    this.#statements.delete(statement)
  }

  /** Does some work of the engine for the call. */
  work<T>(run: () => T): T {
    return this.#engine.work(this.call, run)
  }

  /** Runs a statement whose rows do not matter, with every permission. */
  run(sql: string): void {
    const statement = this.prepare(sql, { write: true, configure: true })
    try {
      statement?.discardRows()
    } finally {
      statement?.finalize()
    }
  }

  /** The first column of the first row, of a statement that reads an integer; with every permission. */
  readInteger(sql: string): number {
    const statement = this.prepare(sql, { write: false, configure: true }) as SqliteStatement
    try {
      return statement.readInteger()
    } finally {
      statement.finalize()
    }
  }

  /** What went wrong in the last call. */
  error(): SqliteError {
    const { api } = this.#engine
    const code = api.sqlite3_extended_errcode(this.#pointer)
    const message = this.#engine.text(api.sqlite3_errmsg(this.#pointer))
    return new SqliteError(message, code, api.sqlite3_error_offset(this.#pointer))
  }

  /**
   * Forgets what `changes()` and `last_insert_rowid()` answer. False when something else would still show that the
   * connection was used, such as a setting.
   */
  reset(): boolean {
    return this.#engine.api.baton_reset(this.#pointer) !== 0
  }

  /** A name as SQL has it, between quotes where it must be. */
  quoteIdentifier(name: string): string {
    const bytes = Buffer.from(name)
    const at = this.#engine.put(bytes)
    const isKeyword = this.#engine.api.sqlite3_keyword_check(at, bytes.length) !== 0
    this.#engine.api.free(at)
    return isKeyword || !/^[A-Za-z_]\w*$/.test(name) ? `"${name.replaceAll('"', '""')}"` : name
  }

  /** Largest text, blob and row it makes or reads, in bytes; a statement that exceeds it is undone. */
  limitLength(bytes: number): void {
    this.#engine.api.sqlite3_limit(this.#pointer, LIMIT_LENGTH, bytes)
  }

  /** Has changes reported, or no longer. */
  watch(watcher: ChangeWatcher | null): void {
    this.#engine.watch(this.#pointer, watcher)
  }

  /** Has the statement that runs end with SQLITE_INTERRUPT when it goes on. */
  interrupt(): void {
    this.#engine.api.sqlite3_interrupt(this.#pointer)
  }

  /** Ends its statements, too. */
  close(): void {
    for (const statement of this.#statements) statement.finalize()
    this.watch(null)
    this.#engine.api.sqlite3_close_v2(this.#pointer)
  }
}

/** A compiled statement. Must be finalized. */
export class SqliteStatement {
  readonly #connection: SqliteConnection
  readonly #engine: EngineInstance
  readonly #grant: Grant
  #pointer: Pointer
  /** Whether it has answered rows and has more. */
  #isHalfRun = false

  /** Made by `SqliteConnection.prepare` only. */
  constructor(connection: SqliteConnection, engine: EngineInstance, pointer: Pointer, grant: Grant) {
    this.#connection = connection
    this.#engine = engine
    this.#pointer = pointer
    this.#grant = grant
  }

  /** Whether it leaves the database as it is; also true of COMMIT and the like. */
  get isReadonly(): boolean {
    return this.#engine.api.sqlite3_stmt_readonly(this.#pointer) !== 0
  }

  get isExplain(): boolean {
    return this.#engine.api.sqlite3_stmt_isexplain(this.#pointer) !== 0
  }

  get columns(): readonly SqliteColumn[] {
    const { api } = this.#engine
    return Array.from({ length: api.sqlite3_column_count(this.#pointer) }, (_, column) => {
      const decltype = api.sqlite3_column_decltype(this.#pointer, column)
      return {
        name: this.#engine.text(api.sqlite3_column_name(this.#pointer, column)),
        decltype: decltype === 0 ? null : this.#engine.text(decltype),
      }
    })
  }

  /** The name of each parameter, with its prefix; null for a plain `?` and for a gap. */
  get parameters(): readonly (string | null)[] {
    const { api } = this.#engine
    return Array.from({ length: api.sqlite3_bind_parameter_count(this.#pointer) }, (_, index) => {
      const name = api.sqlite3_bind_parameter_name(this.#pointer, index + 1)
      return name === 0 ? null : this.#engine.text(name)
    })
  }

  get rowsRead(): number {
    return this.#engine.api.sqlite3_stmt_status(this.#pointer, COUNTER_ROWS_READ, 0)
  }

  get rowsWritten(): number {
    return this.#engine.api.sqlite3_stmt_status(this.#pointer, COUNTER_ROWS_WRITTEN, 0)
  }

  /** Gives the parameters their values, in the order of their numbers. */
  bind(values: readonly EngineValue[]): void {
    for (const [index, value] of values.entries()) {
      if (this.#bindValue(index + 1, value) !== OK) throw this.#connection.error()
    }
  }

  /** Runs on until there are enough rows, or no more. */
  rows({ limitBytes, asLines, maxValueBytes }: RowsOptions): SqliteRows {
    const { api } = this.#engine
    // a statement is compiled again when the schema has changed meanwhile
    this.#engine.grant(this.#grant)
    const code = this.#connection.work(() =>
      api.baton_rows(this.#pointer, limitBytes, Number(asLines), maxValueBytes),
    )
    this.#isHalfRun = code === ROW
    if (code === DONE || code === ROW) {
      const text = this.#engine.textOf(api.baton_output(), api.baton_output_length())
      const [count, sizeBytes] = [api.baton_row_count(), api.baton_result_size()]
      api.baton_shrink_output()
      return { text, count, sizeBytes, isDone: code === DONE }
    }
    api.baton_shrink_output()
    if (code === VALUE_TOO_BIG) throw new SqliteError('string or blob too big', TOO_BIG, -1)
    if (code === TEXT_NOT_UTF8) throw new TextEncodingError(this.#badText())
    if (code === OUT_OF_MEMORY) throw new SqliteError('out of memory', code, -1)
    if (api.baton_was_denied() !== 0) throw new DeniedError('not authorized')
    throw this.#connection.error()
  }

  /** Runs on until there is enough text: a line for each row, `prefix` with its values in parentheses. */
  dumpRows(prefix: string, limitBytes: number): { readonly text: string; readonly isDone: boolean } {
    const { api } = this.#engine
    this.#engine.grant(this.#grant)
    const at = this.#engine.put(Buffer.from(prefix))
    try {
      const code = this.#connection.work(() => api.baton_dump_rows(this.#pointer, at, limitBytes))
      if (code === OUT_OF_MEMORY) throw new SqliteError('out of memory', code, -1)
      if (code !== DONE && code !== ROW) throw this.#connection.error()
      return {
        text: this.#engine.textOf(api.baton_output(), api.baton_output_length()),
        isDone: code === DONE,
      }
    } finally {
      api.baton_shrink_output()
      api.free(at)
    }
  }

  /** Runs to the end without looking at rows. */
  discardRows(): void {
    this.#engine.grant(this.#grant)
    const { api } = this.#engine
    const code = this.#connection.work(() => {
      for (;;) {
        const step = api.sqlite3_step(this.#pointer)
        if (step !== ROW) return step
      }
    })
    if (code !== DONE) throw this.#connection.error()
  }

  /** The first column of the first row, of a statement that reads an integer. */
  readInteger(): number {
    this.#engine.api.sqlite3_step(this.#pointer)
    const value = this.#engine.api.sqlite3_column_int64(this.#pointer, 0)
    this.#engine.api.sqlite3_reset(this.#pointer)
    return Number(value)
  }

  /** Ends the statement, and undoes what it has changed unless it had come to its end. */
  abort(): void {
    if (this.#isHalfRun) {
      this.#connection.interrupt()
      this.#engine.api.sqlite3_step(this.#pointer)
    }
    this.finalize()
  }

  /** Ends the statement, wherever it stands; what it has changed stays. Can be called again. */
  finalize(): void {
    if (this.#pointer === 0) return
    this.#engine.api.sqlite3_finalize(this.#pointer)
    this.#pointer = 0
    this.#connection.forget(this)
  }

  #bindValue(number: number, value: EngineValue): number {
    const { api } = this.#engine
    if (value === null) return api.sqlite3_bind_null(this.#pointer, number)
    if (typeof value === 'bigint') return api.sqlite3_bind_int64(this.#pointer, number, value)
    if (typeof value === 'number') return api.sqlite3_bind_double(this.#pointer, number, value)
    const bytes = typeof value === 'string' ? Buffer.from(value) : value
    const at = this.#engine.put(bytes)
    return typeof value === 'string'
      ? api.baton_bind_text(this.#pointer, number, at, bytes.length)
      : api.baton_bind_blob(this.#pointer, number, at, bytes.length)
  }

  /** In the words of the service. */
  #badText(): string {
    const index = this.#engine.api.baton_bad_text_index()
    const length = this.#engine.api.baton_bad_text_length()
    return length === 0
      ? `incomplete utf-8 byte sequence from index ${index}`
      : `invalid utf-8 sequence of ${length} bytes from index ${index}`
  }
}
