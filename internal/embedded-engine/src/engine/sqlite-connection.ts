import type { EngineValue } from '@batonsql/server-common/hrana'
import type { JsonText } from '../protocol/json-text.ts'
import type { ChangeWatcher, EngineInstance, Grant, Pointer } from './engine-instance.ts'

const SQLITE_OK = 0
const SQLITE_NOMEM = 7
const SQLITE_TOOBIG = 18
const SQLITE_ROW = 100
const SQLITE_DONE = 101
const LIMIT_LENGTH = 0
/** Codes that `wasm/rows.c` defines. */
const VALUE_TOO_BIG = 1001
const TEXT_NOT_UTF8 = 1002
/** From this length on, rows are returned as bytes. */
const LONG_TEXT_BYTES = 32 * 1_024
const COUNTER_ROWS_READ = 1025
const COUNTER_ROWS_WRITTEN = 1026

export class SqliteError extends Error {
  /** SQLite's extended result code. */
  readonly code: number
  /** Byte offset of the error in the SQL text; -1 if it has none. */
  readonly offset: number

  constructor(message: string, code: number, offset: number) {
    super(message)
    this.code = code
    this.offset = offset
  }
}

/** Thrown if a string in a result is not valid UTF-8, so it has no JSON form. */
export class TextEncodingError extends Error {}

/** Thrown if a statement lacks a permission. */
export class DeniedError extends Error {}

export interface SqliteColumn {
  readonly name: string
  readonly decltype: string | null
}

/** Rows of a statement as JSON. */
export interface SqliteRows {
  /** Separated by commas, or one cursor line each. */
  readonly text: JsonText
  /** Size of columns and rows that counts towards the limit of a response; 0 for a cursor, which has no limit. */
  readonly sizeBytes: number
  readonly isDone: boolean
}

export interface RowsOptions {
  /** Rows are returned as soon as their lines, or their size, exceed this limit, in bytes. */
  readonly limitBytes: number
  /** Whether each row becomes a line of a cursor. */
  readonly asLines: boolean
  /** Maximum size of a string or blob, in bytes. */
  readonly maxValueBytes: number
}

export interface ConnectionOptions {
  /** The value of `libsql_server_database_name()`. */
  readonly name: string
  /** A file name of `DatabaseFiles`, or `:memory:`. */
  readonly file: string
}

export class SqliteConnection {
  readonly #engine: EngineInstance
  readonly #pointer: Pointer
  /** Statements that are not finalized. */
  readonly #statements = new Set<SqliteStatement>()
  /** Number of the current call; 0 for none. */
  call = 0

  /** Opens a connection. @throws Error if the file cannot be opened */
  constructor(engine: EngineInstance, { name, file }: ConnectionOptions) {
    this.#engine = engine
    const texts = [file, name].map((text) => engine.put(Buffer.from(text)))
    this.#pointer = engine.api.baton_open(texts[0] as Pointer, texts[1] as Pointer, 0)
    for (const text of texts) engine.api.free(text)
    if (this.#pointer === 0) throw new Error('the database file cannot be opened')
  }

  get isInTransaction(): boolean {
    return this.#engine.api.sqlite3_get_autocommit(this.#pointer) === 0
  }

  /** Number of rows that the last change affected. */
  get changes(): number {
    return Number(this.#engine.api.sqlite3_changes64(this.#pointer))
  }

  get lastInsertRowid(): bigint {
    return this.#engine.api.sqlite3_last_insert_rowid(this.#pointer)
  }

  /** Whether `changes()`, `total_changes()` and `last_insert_rowid()` are those of a new connection. */
  get hasInitialCounts(): boolean {
    return this.lastInsertRowid === 0n && this.#engine.api.sqlite3_total_changes64(this.#pointer) === 0n
  }

  /**
   * Compiles SQL text with a single statement; returns null if it has none. Compiling a change to a vector index already executes
   * it, so only statements that will be executed may be compiled.
   * @throws SqliteError, and DeniedError without permission
   */
  prepare(sql: string, grant: Grant): SqliteStatement | null {
    const { api } = this.#engine
    if (this.#compile(sql, grant) !== SQLITE_OK) {
      if (api.baton_was_denied() !== 0) throw new DeniedError(this.#lastMessage())
      throw this.lastError()
    }
    const pointer = this.#engine.readPointer(this.#engine.scratch)
    if (pointer === 0) return null
    const statement = new SqliteStatement(this, this.#engine, pointer, grant)
    this.#statements.add(statement)
    return statement
  }

  /**
   * Compiles a statement and discards it, with the permission to write, but not to attach or to change settings.
   * @returns the message of its error; null if it compiles, or if it needs another permission
   */
  check(sql: string): string | null {
    const { api, scratch } = this.#engine
    if (this.#compile(sql, { write: true }) !== SQLITE_OK)
      return api.baton_was_denied() === 0 ? this.#lastMessage() : null
    api.sqlite3_finalize(this.#engine.readPointer(scratch))
    return null
  }

  #compile(sql: string, grant: Grant): number {
    const { api, scratch } = this.#engine
    const bytes = Buffer.from(sql)
    const text = this.#engine.put(bytes)
    try {
      this.#engine.grant(grant)
      return this.runForCall(() => api.sqlite3_prepare_v3(this.#pointer, text, bytes.length, 0, scratch, 0))
    } finally {
      api.free(text)
    }
  }

  #lastMessage(): string {
    return this.#engine.readCString(this.#engine.api.sqlite3_errmsg(this.#pointer))
  }

  forget(statement: SqliteStatement): void {
    this.#statements.delete(statement)
  }

  runForCall<T>(run: () => T): T {
    return this.#engine.runForCall(this.call, run)
  }

  /** Executes an internal statement with all permissions, ignoring its rows. */
  run(sql: string): void {
    const statement = this.prepare(sql, { write: true, configure: true })
    try {
      statement?.discardRows()
    } finally {
      statement?.finalize()
    }
  }

  /** Returns the integer in the first column of the first row, for an internal query. @throws SqliteError if there is no row */
  readInteger(sql: string): number {
    const statement = this.prepare(sql, { write: false, configure: true }) as SqliteStatement
    try {
      const value = statement.readInteger()
      if (value === null) throw this.lastError()
      return value
    } finally {
      statement.finalize()
    }
  }

  lastError(): SqliteError {
    const { api } = this.#engine
    const code = api.sqlite3_extended_errcode(this.#pointer)
    return new SqliteError(this.#lastMessage(), code, api.sqlite3_error_offset(this.#pointer))
  }

  /**
   * Resets `changes()` and `last_insert_rowid()`. @returns false if the connection still differs from a new one, for example in a
   * setting
   */
  reset(): boolean {
    return this.#engine.api.baton_reset(this.#pointer) !== 0
  }

  /** Quotes an identifier if necessary. */
  quoteIdentifier(name: string): string {
    const bytes = Buffer.from(name)
    const at = this.#engine.put(bytes)
    const isKeyword = this.#engine.api.sqlite3_keyword_check(at, bytes.length) !== 0
    this.#engine.api.free(at)
    return isKeyword || !/^[A-Za-z_]\w*$/.test(name) ? `"${name.replaceAll('"', '""')}"` : name
  }

  /** Limits the size of strings, blobs and rows, in bytes; a statement that exceeds the limit is rolled back. */
  limitLength(bytes: number): void {
    this.#engine.api.sqlite3_limit(this.#pointer, LIMIT_LENGTH, bytes)
  }

  /** Starts or stops reporting changes. */
  watch(watcher: ChangeWatcher | null): void {
    this.#engine.watch(this.#pointer, watcher)
  }

  /** Interrupts the running statement, which fails with SQLITE_INTERRUPT. */
  interrupt(): void {
    this.#engine.api.sqlite3_interrupt(this.#pointer)
  }

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
  /** Whether it has returned rows and has more. */
  #hasMoreRows = false
  #parameters: readonly (string | null)[] | null = null

  /** Called only by `SqliteConnection.prepare`. */
  constructor(connection: SqliteConnection, engine: EngineInstance, pointer: Pointer, grant: Grant) {
    this.#connection = connection
    this.#engine = engine
    this.#pointer = pointer
    this.#grant = grant
  }

  /** Whether the statement itself does not change the database; also true of BEGIN, COMMIT and ROLLBACK. */
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
        name: this.#engine.readCString(api.sqlite3_column_name(this.#pointer, column)),
        decltype: decltype === 0 ? null : this.#engine.readCString(decltype),
      }
    })
  }

  /** The name of each parameter with its prefix; null for a plain `?` and for a gap. */
  get parameters(): readonly (string | null)[] {
    const { api } = this.#engine
    this.#parameters ??= Array.from(
      { length: api.sqlite3_bind_parameter_count(this.#pointer) },
      (_, index) => {
        const name = api.sqlite3_bind_parameter_name(this.#pointer, index + 1)
        return name === 0 ? null : this.#engine.readCString(name)
      },
    )
    return this.#parameters
  }

  get rowsRead(): number {
    return this.#engine.api.sqlite3_stmt_status(this.#pointer, COUNTER_ROWS_READ, 0)
  }

  get rowsWritten(): number {
    return this.#engine.api.sqlite3_stmt_status(this.#pointer, COUNTER_ROWS_WRITTEN, 0)
  }

  /** Binds values to the parameters, in the order of their numbers. */
  bind(values: readonly EngineValue[]): void {
    for (const [index, value] of values.entries()) {
      if (this.#bindValue(index + 1, value) !== SQLITE_OK) throw this.#connection.lastError()
    }
  }

  /** Reads rows until the limit is reached or there are no more. */
  readRows({ limitBytes, asLines, maxValueBytes }: RowsOptions): SqliteRows {
    const { api } = this.#engine
    // the statement is compiled again if the schema has changed
    this.#engine.grant(this.#grant)
    const code = this.#connection.runForCall(() =>
      api.baton_rows(this.#pointer, limitBytes, Number(asLines), maxValueBytes),
    )
    this.#hasMoreRows = code === SQLITE_ROW
    if (code === SQLITE_DONE || code === SQLITE_ROW) {
      const at = api.baton_output()
      const length = api.baton_output_length()
      const text =
        length < LONG_TEXT_BYTES ? this.#engine.readText(at, length) : [this.#engine.copyBytes(at, length)]
      const sizeBytes = api.baton_result_size()
      api.baton_shrink_output()
      return { text, sizeBytes, isDone: code === SQLITE_DONE }
    }
    api.baton_shrink_output()
    if (code === VALUE_TOO_BIG) throw new SqliteError('string or blob too big', SQLITE_TOOBIG, -1)
    if (code === TEXT_NOT_UTF8) throw new TextEncodingError(this.#describeMalformedText())
    if (code === SQLITE_NOMEM) throw new SqliteError('out of memory', code, -1)
    if (api.baton_was_denied() !== 0) throw new DeniedError('not authorized')
    throw this.#connection.lastError()
  }

  /** Reads rows until the limit is reached: a line for each row, `prefix` followed by its values in parentheses. */
  dumpRows(prefix: string, limitBytes: number): { readonly text: string; readonly isDone: boolean } {
    const { api } = this.#engine
    this.#engine.grant(this.#grant)
    const at = this.#engine.put(Buffer.from(prefix))
    try {
      const code = this.#connection.runForCall(() => api.baton_dump_rows(this.#pointer, at, limitBytes))
      if (code === SQLITE_NOMEM) throw new SqliteError('out of memory', code, -1)
      if (code !== SQLITE_DONE && code !== SQLITE_ROW) throw this.#connection.lastError()
      return {
        text: this.#engine.readText(api.baton_output(), api.baton_output_length()),
        isDone: code === SQLITE_DONE,
      }
    } finally {
      api.baton_shrink_output()
      api.free(at)
    }
  }

  /** Executes the rest of the statement without reading rows. */
  discardRows(): void {
    this.#engine.grant(this.#grant)
    const { api } = this.#engine
    const code = this.#connection.runForCall(() => {
      for (;;) {
        const step = api.sqlite3_step(this.#pointer)
        if (step !== SQLITE_ROW) return step
      }
    })
    if (code !== SQLITE_DONE) throw this.#connection.lastError()
  }

  /** Returns the integer in the first column of the first row; null if the query fails or has no row. */
  readInteger(): number | null {
    const { api } = this.#engine
    const hasRow = api.sqlite3_step(this.#pointer) === SQLITE_ROW
    const value = hasRow ? Number(api.sqlite3_column_int64(this.#pointer, 0)) : null
    api.sqlite3_reset(this.#pointer)
    return value
  }

  /** Prepares a finished statement for another execution. */
  reset(): void {
    const { api } = this.#engine
    api.sqlite3_reset(this.#pointer)
    api.sqlite3_clear_bindings(this.#pointer)
    for (const counter of [COUNTER_ROWS_READ, COUNTER_ROWS_WRITTEN])
      api.sqlite3_stmt_status(this.#pointer, counter, 1)
  }

  /** Ends the statement, and rolls it back if it has more rows. */
  abort(): void {
    if (this.#hasMoreRows) {
      // finalizing a statement keeps its changes; an interrupted step undoes them
      this.#connection.interrupt()
      this.#engine.api.sqlite3_step(this.#pointer)
    }
    this.finalize()
  }

  /** Ends the statement in any state; its changes are kept. Can be called again. */
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
    // SQLite frees it
    const at = this.#engine.put(bytes)
    return typeof value === 'string'
      ? api.baton_bind_text(this.#pointer, number, at, bytes.length)
      : api.baton_bind_blob(this.#pointer, number, at, bytes.length)
  }

  /** Describes malformed UTF-8, as worded by the service. */
  #describeMalformedText(): string {
    const index = this.#engine.api.baton_bad_text_index()
    const length = this.#engine.api.baton_bad_text_length()
    return length === 0
      ? `incomplete utf-8 byte sequence from index ${index}`
      : `invalid utf-8 sequence of ${length} bytes from index ${index}`
  }
}
