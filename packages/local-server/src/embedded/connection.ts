import { resolveArguments, type StatementArguments } from './arguments.ts'
import {
  type EngineColumn,
  type EngineConnection,
  type EngineStatement,
  type NativeValue,
  toNative,
} from './engine.ts'
import { asEngineError } from './engine-error.ts'
import { encodeExchanged, exchangedQuery, exchangedReturning } from './lossless-rows.ts'
import { encodeValue, type ResultColumn, type StatementResult } from './result-encoder.ts'
import { upper } from './sql-scanner.ts'
import type { Statement } from './statement.ts'
import type { WriteQueue, Writer } from './write-queue.ts'

const MAX_VALUE_BYTES = 5_000_000
/** Begins a write and does nothing, unless the file was made for incremental vacuum, which ours are not. */
const LOCKING_NO_OP = 'PRAGMA incremental_vacuum(0)'

/** Told of every transaction that has changed the database. */
export type CommitListener = () => void

/** A value of a result is larger than the service allows. */
export class ValueTooBigError extends Error {}

/** A statement that is ready to run. */
interface Prepared {
  readonly statement: EngineStatement
  readonly columns: readonly ResultColumn[]
  readonly isExchanged: boolean
}

/** A statement that has been started: what is known before its first row. */
export interface RunningStatement {
  readonly columns: readonly ResultColumn[]
  /** The rows, each as JSON text. Must be read to the end or given back by `stop`. */
  readonly rows: IterableIterator<string>
  /** Ends a statement whose rows are not wanted any more. */
  stop(): void
  /** To be called after the last row. */
  finish(): StatementResult
}

/** One client's connection to the database: runs single statements and keeps the write slot honest. */
export class Connection implements Writer {
  readonly #engine: EngineConnection
  readonly #queue: WriteQueue
  readonly #onCommit: CommitListener
  #changes: EngineStatement | null = null
  #isTimedOut = false
  #isLocked = false
  isRunning = false

  constructor(engine: EngineConnection, queue: WriteQueue, onCommit: CommitListener) {
    this.#engine = engine
    this.#queue = queue
    this.#onCommit = onCommit
  }

  get isAutocommit(): boolean {
    return !this.#engine.inTransaction
  }

  /** Whether the transaction was taken away since the last program; asking clears it. */
  takeTimeout(): boolean {
    const isTimedOut = this.#isTimedOut
    this.#isTimedOut = false
    return isTimedOut
  }

  robbed(): void {
    this.#isTimedOut = true
    this.#isLocked = false
    this.#rollback()
  }

  /** While it runs, the write slot cannot be taken away. */
  async working<T>(run: () => Promise<T>): Promise<T> {
    this.isRunning = true
    try {
      return await run()
    } finally {
      this.isRunning = false
      this.#queue.programEnded(this)
    }
  }

  /** Within `working`: waits for somebody outside, at the risk of losing the write slot. */
  async waiting<T>(wait: () => Promise<T>): Promise<T> {
    this.isRunning = false
    this.#queue.programEnded(this)
    try {
      return await wait()
    } finally {
      this.isRunning = true
    }
  }

  /** Has the engine read a statement without running it; throws the engine's error. */
  check(sql: string): EngineStatement {
    return this.#engine.prepare(sql)
  }

  /** Prepares and starts a statement, waiting for the write slot where it needs it. */
  async start(statement: Statement, given: StatementArguments): Promise<RunningStatement> {
    const startedAt = performance.now()
    const prepared = this.#prepare(statement)
    const isBare = statement.kind === 'explain' && given.args.length === 0 && given.namedArgs.length === 0
    const values = isBare ? [] : toNative(resolveArguments(statement.parameters, given))
    if (statement.needsWriteSlot) {
      const turn = this.#queue.acquire(this)
      if (turn !== null) await turn
      if (statement.kind !== 'begin') this.#lock()
    }
    return new Run(this, prepared, statement, values, startedAt)
  }

  /** What the last change did, from the engine's own counters, which stay exact beyond 2^53. */
  lastChange(): { changes: number; rowid: bigint } {
    this.#changes ??= this.#engine.prepare('SELECT changes(), last_insert_rowid()').raw()
    const rows = this.#changes.iterate([])
    const row = rows.next().value as readonly [bigint, bigint]
    rows.next()
    return { changes: Number(row[0]), rowid: row[1] }
  }

  /** Gives the write slot back once no transaction is open; a change that went well has then been committed. */
  settle(isDone: boolean): void {
    if (this.#engine.inTransaction) return
    this.#isLocked = false
    if (!this.#queue.isHeldBy(this)) return
    if (isDone) this.#onCommit()
    this.#queue.release(this)
  }

  close(): void {
    this.#rollback()
    this.#queue.release(this)
    this.#changes = null
    this.#engine.close()
  }

  /**
   * Takes the engine's write lock in an open transaction. When the transaction's snapshot is stale this fails; were
   * the statement itself to meet that, the binding would leave it half-run and the snapshot with it.
   */
  #lock(): void {
    if (!this.#engine.inTransaction || this.#isLocked) return
    this.#engine.exec(LOCKING_NO_OP)
    this.#isLocked = true
  }

  #rollback(): void {
    if (this.#engine.inTransaction) this.#engine.exec('ROLLBACK')
  }

  #prepare(statement: Statement): Prepared {
    const plain = this.#engine.prepare(statement.sql)
    if (!plain.reader) return { statement: plain, columns: [], isExchanged: false }
    const native = plain.columns()
    const columns = native.map(({ name, type }) => ({ name, decltype: type }))
    const sql = exchangedSql(statement, native)
    if (sql !== null) {
      try {
        return { statement: this.#engine.prepare(sql).raw(), columns, isExchanged: true }
      } catch (error) {
        if (asEngineError(error) === null) throw error
        // beyond a limit of the engine in its wrapped form only
      }
    }
    return { statement: plain.raw(), columns, isExchanged: false }
  }
}

function exchangedSql(statement: Statement, columns: readonly EngineColumn[]): string | null {
  if (statement.kind === 'query') return exchangedQuery(statement, columns.length)
  return statement.returningAt >= 0 ? exchangedReturning(statement, columns) : null
}

class Run implements RunningStatement {
  readonly columns: readonly ResultColumn[]
  readonly rows: IterableIterator<string>
  readonly #connection: Connection
  readonly #prepared: Prepared
  readonly #statement: Statement
  readonly #values: readonly NativeValue[]
  readonly #startedAt: number
  #rowCount = 0
  #native: Iterator<readonly NativeValue[]> | null = null

  constructor(
    connection: Connection,
    prepared: Prepared,
    statement: Statement,
    values: readonly NativeValue[],
    startedAt: number,
  ) {
    this.#connection = connection
    this.#prepared = prepared
    this.#statement = statement
    this.#values = values
    this.#startedAt = startedAt
    this.columns = prepared.columns
    this.rows = this.#read()
  }

  stop(): void {
    const { statement } = this.#prepared
    if (this.#statement.kind === 'query') {
      statement.get(this.#values) // the only call that resets it
    } else {
      // a change has happened already, its rows are as many as it changed
      while (this.#native !== null && this.#native.next().done !== true) continue
    }
    this.#connection.settle(true)
  }

  finish(): StatementResult {
    const { kind } = this.#statement
    const isChange = kind === 'insert' || kind === 'change'
    const last = isChange ? this.#connection.lastChange() : null
    this.#connection.settle(!isRollback(this.#statement))
    const durationMs = Math.round((performance.now() - this.#startedAt) * 1_000) / 1_000
    return {
      columns: this.columns,
      rows: '',
      affectedRowCount: last?.changes ?? 0,
      lastInsertRowid: kind === 'insert' && last !== null ? last.rowid : null,
      rowsRead: this.#rowCount,
      rowsWritten: last?.changes ?? 0,
      durationMs,
    }
  }

  *#read(): IterableIterator<string> {
    const { statement, isExchanged } = this.#prepared
    const encode = isExchanged ? encodeExchanged : encodeValue
    try {
      if (!statement.reader) {
        statement.run(this.#values)
        return
      }
      const rows = statement.iterate(this.#values)
      this.#native = rows
      for (let next = rows.next(); next.done !== true; next = rows.next()) {
        this.#rowCount += 1
        const cells = next.value.map((value) => {
          if (byteLength(value) > MAX_VALUE_BYTES) throw new ValueTooBigError('string or blob too big')
          return encode(value)
        })
        yield `[${cells.join()}]`
      }
    } catch (error) {
      if (asEngineError(error) === null) this.stop()
      else this.#connection.settle(false)
      throw error
    }
  }
}

function byteLength(value: NativeValue): number {
  if (typeof value === 'string') return value.length / 2
  return Buffer.isBuffer(value) ? value.length : 0
}

function isRollback(statement: Statement): boolean {
  return upper(statement.sql, statement.tokens[0]) === 'ROLLBACK'
}
