import type { Statement } from '@batonsql/server-common/sql'
import { resolveArguments, type StatementArguments } from './arguments.ts'
import type { Grant } from './engine-instance.ts'
import { MAX_VALUE_BYTES } from './limits.ts'
import type { StatementResult } from './result-encoder.ts'
import {
  DeniedError,
  type SqliteColumn,
  type SqliteConnection,
  SqliteError,
  type SqliteRows,
  type SqliteStatement,
} from './sqlite-connection.ts'
import { transactionTimeout } from './statement-checks.ts'

const SQLITE_BUSY = 5

/** How a statement was compiled. */
export interface RunContext {
  readonly statement: Statement
  readonly grant: Grant
  /** Whether it is in a savepoint, to undo effects of compiling it. */
  readonly mustUndo: boolean
  readonly startedAt: number
}

/** The connection that a statement runs on. */
export interface StatementOwner {
  readonly holdsLock: boolean
  /** Acquires the write lock. @returns the statement compiled again if it had to wait, because the schema may have changed */
  lockFor(statement: Statement, grant: Grant): Promise<SqliteStatement | null>
  /** Ends a statement that has returned all of its rows. Within a transaction it stays compiled in case it is repeated. */
  finalizeOrCache(prepared: SqliteStatement, context: Pick<RunContext, 'statement' | 'grant'>): void
  /** Called when a statement has ended: releases the write lock unless a transaction is open. */
  onStatementEnd(mustUndo: boolean): void
  /** Releases the write lock within a transaction that has written nothing. */
  releaseUnusedLock(): void
}

/** A prepared statement: call `begin`, read it to the end and call `finish`, or call `stop`. */
export class RunningStatement {
  readonly #connection: StatementOwner
  readonly #engine: SqliteConnection
  readonly #context: RunContext
  #prepared: SqliteStatement
  #isAborted = false
  #hasEnded = false
  /** Whether the statement began without the write lock: the transaction of the connection, if any, had written nothing. */
  #beganWithoutLock = false

  /** Called only by `ClientConnection.prepare`. */
  constructor(
    connection: StatementOwner,
    engine: SqliteConnection,
    prepared: SqliteStatement,
    context: RunContext,
  ) {
    this.#connection = connection
    this.#engine = engine
    this.#prepared = prepared
    this.#context = context
  }

  get columns(): readonly SqliteColumn[] {
    return this.#prepared.columns
  }

  /** Rejects a statement that the engine parses differently, because permissions were determined from the text. */
  checkParsedAlike(): void {
    const { statement } = this.#context
    const isParsedAlike =
      statement.kind === 'explain'
        ? this.#prepared.isExplain
        : this.#prepared.isReadonly || needsWritePermission(statement)
    if (isParsedAlike) return
    this.#prepared.finalize()
    throw new DeniedError('the engine parsed a different statement')
  }

  /** Binds the parameters, and acquires the write lock if the statement needs it. */
  async begin(args: StatementArguments): Promise<void> {
    const { statement, grant } = this.#context
    try {
      this.#checkNotAborted()
      const values = resolveArguments(this.#prepared.parameters, args, statement.kind === 'explain')
      this.#beganWithoutLock = !this.#connection.holdsLock
      const prepared = await this.#connection.lockFor(statement, grant)
      if (prepared !== null) {
        this.#prepared.finalize()
        this.#prepared = prepared
      }
      this.#prepared.bind(values)
    } catch (error) {
      this.#end()
      throw error
    }
  }

  /** Returns the next rows, up to the first that exceeds `limitBytes`. An error ends the statement. */
  readRows(limitBytes: number, asLines: boolean): SqliteRows {
    return this.#runGuarded(() =>
      this.#prepared.readRows({ limitBytes, asLines, maxValueBytes: MAX_VALUE_BYTES }),
    )
  }

  /** Executes the rest of the statement without reading rows. An error ends the statement. */
  discardRows(): void {
    this.#runGuarded(() => this.#prepared.discardRows())
  }

  #runGuarded<T>(run: () => T): T {
    try {
      this.#checkNotAborted()
      return run()
    } catch (error) {
      this.#end()
      // the transaction's snapshot is outdated: it can still read, but other writers may acquire the lock
      if (this.#beganWithoutLock && error instanceof SqliteError && (error.code & 0xff) === SQLITE_BUSY)
        this.#connection.releaseUnusedLock()
      throw error
    }
  }

  /** Rolls the statement back: the write lock was preempted, or the connection is closed. */
  abort(): void {
    this.#isAborted = true
    this.#prepared.abort()
  }

  /** Ends the statement, unless it has ended. Its remaining rows are not read; its changes are kept. */
  stop(): void {
    this.#end()
  }

  /** Ends the statement after its last row. @returns its result, without rows */
  finish(): StatementResult {
    const { statement, startedAt } = this.#context
    const isChange = statement.kind === 'insert' || statement.kind === 'change'
    const affectedRowCount = isChange ? this.#engine.changes : 0
    const lastInsertRowid = statement.kind === 'insert' ? this.#engine.lastInsertRowid : null
    const { columns, rowsRead, rowsWritten } = this.#prepared
    this.#end(() => this.#connection.finalizeOrCache(this.#prepared, this.#context))
    const durationMs = Math.round((performance.now() - startedAt) * 1_000) / 1_000
    return {
      columns,
      rows: '',
      sizeBytes: 0,
      affectedRowCount,
      lastInsertRowid,
      rowsRead,
      rowsWritten,
      durationMs,
    }
  }

  #checkNotAborted(): void {
    if (this.#isAborted) throw transactionTimeout()
  }

  #end(end = () => this.#prepared.finalize()): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    end()
    this.#connection.onStatementEnd(this.#context.mustUndo)
  }
}

/** Whether compiling a statement needs the permission to write. An EXPLAIN is compiled like the statement that it explains. */
export function needsWritePermission(statement: Statement): boolean {
  return statement.needsWriteLock || statement.access === 'write' || statement.kind === 'explain'
}
