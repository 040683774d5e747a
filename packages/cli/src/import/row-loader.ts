import { type BatchOptions, type Client, type InStatement, SqlError, type Transaction } from '@batonsql/core'
import { failWhen, isFailedAssertion } from '@batonsql/core/adapter'
import { toValue } from './column-types.ts'
import type { Cell, CsvRecord } from './csv-records.ts'
import type { ImportSource } from './import-source.ts'
import { type ImportTarget, quoteName } from './import-target.ts'
import { findProblem, isBlank, type Scan, textOf } from './scan-rows.ts'

interface LoaderOptions {
  readonly scan: Scan
  readonly target: ImportTarget
  readonly source: ImportSource
  readonly skipsBadRows: boolean
  readonly signal: AbortSignal
}

/** Limits of a transaction, so that it holds the write lock only briefly. */
const MAX_ROWS = 1_000
const MAX_CHARACTERS = 1_000_000
/** Maximum number of values in a statement. */
const MAX_VALUES = 5_000

/** Matches the codes of errors that a row may cause, such as malformed JSON; any other, such as BLOCKED, would affect every row. */
const ROW_ERROR = /^SQLITE_(?:CONSTRAINT|MISMATCH|TOOBIG|ERROR|UNKNOWN)/

/** How long to wait for a request that may still be running, in ms. */
const SETTLE_MS = 10_000

/** Rows that are imported in one transaction. */
interface Chunk {
  /** Number of rows of the file up to the end of the chunk, including those that were skipped. */
  readonly end: number
  readonly records: readonly CsvRecord[]
  readonly isLast: boolean
}

/**
 * Loads the rows of a file in chunks, each in one transaction. Unless there is only one chunk, a table records the progress until
 * the end, in the same transactions, so that an interrupted import can continue.
 */
export class RowLoader {
  readonly #db: Client
  readonly #options: LoaderOptions
  /** Identifies the content that was scanned. */
  readonly #digest: string
  readonly progressTable: string
  /** Rows of the file that have been handled. */
  position = 0
  /** Rows that were stored by this run. */
  imported = 0
  /** The rows that were skipped. */
  readonly problems: string[] = []
  /** Whether the progress table exists. */
  hasProgress = false
  /** Whether all rows have been handled, so that only the progress table remains to be dropped. */
  isComplete = false

  constructor(db: Client, options: LoaderOptions) {
    this.#db = db
    this.#options = options
    this.#digest = options.source.digest
    this.progressTable = `baton_import_${options.target.table}`
  }

  /** Reads the progress of an interrupted import. @throws Error if there is one but `resume` is not set, or none although it is */
  async prepare(resume: boolean): Promise<void> {
    const { target, signal } = this.#options
    const progress = await this.#readProgress({ signal })
    if (progress === null && resume)
      throw new Error(
        `there is no interrupted import into ${target.table}: it was finished, or stored no row`,
      )
    if (progress === null) return
    if (!resume)
      throw new Error(
        `an earlier import into ${target.table} was interrupted: continue it with --resume, or drop the table "${this.progressTable}"`,
      )
    if (progress.source !== this.#digest)
      throw new Error(
        `the interrupted import into ${target.table} was of another file, or the file has changed since`,
      )
    this.position = Number(progress.rows)
    this.hasProgress = true
  }

  /**
   * Reads the progress after a request whose outcome is unknown.
   * @returns whether it is known now; without a progress table it is not, because a single transaction makes none
   */
  async readProgressAfterFailure(): Promise<boolean> {
    try {
      // waits for a request that still holds the write lock
      const progress = await this.#readProgress({ mode: 'immediate', timeoutMs: SETTLE_MS })
      if (progress === null) return this.hasProgress
      this.position = Number(progress.rows)
      this.hasProgress = true
      return true
    } catch {
      return false
    }
  }

  async #readProgress(options: BatchOptions): Promise<{ source: string; rows: number | bigint } | null> {
    try {
      const [result] = await this.#db.batch(
        [`select source, rows from ${quoteName(this.progressTable)}`],
        options,
      )
      return (result?.rows[0] as { source: string; rows: number | bigint } | undefined) ?? null
    } catch (error) {
      if (error instanceof SqlError && /no such table/i.test(error.message)) return null
      throw error
    }
  }

  /**
   * Loads the rows that are missing. The progress table is dropped in a separate request, so that an import whose last response was
   * lost can be recognized.
   * @param onProgress called after each chunk
   */
  async load(onProgress: () => void): Promise<void> {
    for await (const chunk of this.#chunks()) {
      // without progress nothing is stored yet: even a file without rows creates its table
      if (chunk.end <= this.position && this.hasProgress) continue
      await this.#apply(chunk)
      onProgress()
    }
    this.isComplete = true
    if (!this.hasProgress) return
    await this.#db.execute(`drop table if exists ${quoteName(this.progressTable)}`, [], {
      signal: this.#options.signal,
    })
    this.hasProgress = false
  }

  /** Reads the file in chunks. Those before the position have no rows, because they have been handled. */
  async *#chunks(): AsyncGenerator<Chunk, void, undefined> {
    const { source, scan, signal } = this.#options
    let skipsHeader = scan.hasHeader
    let records: CsvRecord[] = []
    let characters = 0
    let end = 0
    for await (const record of source.records()) {
      signal.throwIfAborted()
      const isHeader = skipsHeader
      skipsHeader = false
      if (isHeader || isBlank(record, scan.columns.length)) continue
      if (records.length >= MAX_ROWS || characters >= MAX_CHARACTERS) {
        yield { end, records, isLast: false }
        records = []
        characters = 0
      }
      end += 1
      const problem = findProblem(record, scan.columns)
      if (problem !== null) {
        if (end > this.position) this.problems.push(problem)
      } else if (end > this.position) records.push(record)
      for (const cell of record.cells) characters += textOf(cell).length
    }
    if (source.digest !== this.#digest) throw new Error(`${source.name} was changed while it was imported`)
    yield { end, records, isLast: true }
  }

  async #apply(chunk: Chunk): Promise<void> {
    const { before, after } = this.#surround(chunk)
    const inserts = this.#inserts(chunk.records)
    try {
      await this.#db.batch([...before, ...inserts, ...after], { signal: this.#options.signal })
      this.imported += chunk.records.length
    } catch (error) {
      if (!(error instanceof SqlError)) throw error
      if (isFailedAssertion(error, 0))
        throw new Error(`another process is importing into ${this.#options.target.table}`, { cause: error })
      const isInsert =
        error.statementIndex !== null &&
        error.statementIndex >= before.length &&
        error.statementIndex < before.length + inserts.length
      if (!isInsert) throw error
      await this.#applyOneByOne(chunk)
    }
    this.position = chunk.end
    this.hasProgress ||= !chunk.isLast
  }

  /** Applies a chunk that has a row which the database rejects: without that row, or not at all. */
  async #applyOneByOne(chunk: Chunk): Promise<void> {
    const { before, after } = this.#surround(chunk)
    const problems: string[] = []
    await this.#db.transaction(async (tx) => {
      for (const statement of before) await tx.execute(statement)
      // a statement that cannot be prepared, as when a trigger needs a missing table, says nothing about any row
      const { sql, args } = this.#insert(chunk.records.slice(0, 1))
      await tx.execute(`explain query plan ${sql}`, args)
      for (let index = 0; index < chunk.records.length; ) {
        const failure = await this.#insertFrom(tx, chunk.records, index)
        if (failure === null) break
        const record = chunk.records[failure.index] as CsvRecord
        const problem = `line ${record.line}: ${failure.error.message}`
        const mayBeSkipped = ROW_ERROR.test(failure.error.code)
        if (!this.#options.skipsBadRows || !mayBeSkipped)
          throw new Error(mayBeSkipped ? `${problem}; --skip-bad-rows imports the other rows` : problem, {
            cause: failure.error,
          })
        problems.push(problem)
        index = failure.index + 1
      }
      for (const statement of after) await tx.execute(statement)
    })
    this.problems.push(...problems)
    this.imported += chunk.records.length - problems.length
  }

  /**
   * Inserts the rows from `start` on, with a statement for each; those before a rejected row stay inserted.
   * @returns the first row that the database rejects; null if there is none
   */
  async #insertFrom(
    tx: Transaction,
    records: readonly CsvRecord[],
    start: number,
  ): Promise<{ readonly index: number; readonly error: SqlError } | null> {
    const statements = records.slice(start).map((record) => this.#insert([record]))
    try {
      await tx.batch(statements, { signal: this.#options.signal })
      return null
    } catch (error) {
      if (!(error instanceof SqlError)) throw error
      // the error of a single statement may have no index
      const index = error.statementIndex ?? (statements.length === 1 ? 0 : null)
      if (index === null) throw error
      return { index: start + index, error }
    }
  }

  /** Returns the statements that create the tables and record the progress. */
  #surround({ end, isLast }: Chunk): {
    readonly before: readonly InStatement[]
    readonly after: readonly InStatement[]
  } {
    const { scan, target } = this.#options
    const table = quoteName(this.progressTable)
    const isFirst = !this.hasProgress
    const columns = scan.columns.map(({ name, type }) => `${quoteName(name)} ${type}`.trim())
    const creation =
      isFirst && target.columns === null
        ? [`create table ${quoteName(target.table)} (${columns.join(', ')})`]
        : []
    if (isFirst) {
      const record = [
        `create table ${table} (source text not null, rows integer not null)`,
        { sql: `insert into ${table} values (?, ?)`, args: [this.#digest, end] },
      ]
      return { before: creation, after: isLast ? [] : record }
    }
    const { position } = this
    const guard = `select ${failWhen(`not exists (select 1 from ${table} where rows = ${position})`, 'progress')}`
    const update = { sql: `update ${table} set rows = ?`, args: [end] }
    return { before: [guard], after: [update] }
  }

  /** Returns the statements that insert rows, each with as many rows as `MAX_VALUES` allows. */
  #inserts(records: readonly CsvRecord[]): readonly InStatement[] {
    const size = Math.max(1, Math.floor(MAX_VALUES / this.#options.scan.columns.length))
    const inserts: InStatement[] = []
    for (let start = 0; start < records.length; start += size)
      inserts.push(this.#insert(records.slice(start, start + size)))
    return inserts
  }

  #insert(records: readonly CsvRecord[]): Exclude<InStatement, string> {
    const { scan, target } = this.#options
    const { columns } = scan
    const names = columns.map(({ name }) => quoteName(name)).join(', ')
    const row = `(${columns.map(() => '?').join(', ')})`
    const args = records.flatMap(({ cells }) =>
      columns.map(({ affinity }, index) => toValue(cells[index] as Cell, affinity)),
    )
    return {
      sql: `insert into ${quoteName(target.table)} (${names}) values ${records.map(() => row).join(', ')}`,
      args,
    }
  }
}
