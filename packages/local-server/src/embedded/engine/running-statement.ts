import type { Statement } from '../../sql/statement.ts'
import { resolveArguments, type StatementArguments } from './arguments.ts'
import {
  DeniedError,
  type EngineColumn,
  type EngineConnection,
  EngineError,
  type EngineRows,
  type EngineStatement,
} from './engine-connection.ts'
import type { Grant } from './engine-instance.ts'
import { MAX_VALUE_BYTES } from './limits.ts'
import type { StatementResult } from './result-encoder.ts'

const BUSY = 5

/** The write lock was taken away while the statement ran: it is undone. */
export class PreemptedError extends Error {
  constructor() {
    super('the write lock was taken away')
  }
}

/** What a statement needs of the connection it runs on. */
interface StatementOwner {
  readonly holdsLock: boolean
  /** Waits for the write lock where the statement needs it; what it is compiled to anew if it had to wait. */
  lockFor(statement: Statement, grant: Grant): Promise<EngineStatement | null>
  /** Gives the write lock back although a transaction is open. */
  unlock(): void
  settle(isUndone: boolean): void
}

/** What a statement is compiled from, and when that was. */
interface RunContext {
  readonly statement: Statement
  readonly grant: Grant
  /** Whether there is a savepoint around it, to undo what compiling it has done. */
  readonly isUndone: boolean
  readonly startedAt: number
}

/** A statement on its way: `begin` it, read it to the end and call `finish`, or call `stop`. */
export class RunningStatement {
  readonly #connection: StatementOwner
  readonly #engine: EngineConnection
  readonly #context: RunContext
  #prepared: EngineStatement
  #isAborted = false
  #hasEnded = false
  /** Whether it has taken the write lock for a transaction that had not written before. */
  #tookLock = false

  /** Made by `Connection.prepare` only. */
  constructor(
    connection: StatementOwner,
    engine: EngineConnection,
    prepared: EngineStatement,
    context: RunContext,
  ) {
    this.#connection = connection
    this.#engine = engine
    this.#prepared = prepared
    this.#context = context
  }

  get columns(): readonly EngineColumn[] {
    return this.#prepared.columns
  }

  /** The permission was decided by reading the text: where the engine reads it differently, it is refused. */
  checkAgreement(): void {
    const { statement } = this.#context
    const isAgreed =
      statement.kind === 'explain'
        ? this.#prepared.isExplain
        : this.#prepared.isReadonly || isWriting(statement)
    if (isAgreed) return
    this.#prepared.finalize()
    throw new DeniedError('the engine takes the statement for another one')
  }

  /** Gives the parameters their values, and waits for the write lock where the statement needs it. */
  async begin(given: StatementArguments): Promise<void> {
    const { statement, grant } = this.#context
    try {
      this.#checkNotAborted()
      const values = resolveArguments(this.#prepared.parameters, given, statement.kind === 'explain')
      this.#tookLock = !this.#connection.holdsLock
      const anew = await this.#connection.lockFor(statement, grant)
      if (anew !== null) {
        this.#prepared.finalize()
        this.#prepared = anew
      }
      this.#prepared.bind(values)
    } catch (error) {
      this.#end()
      throw error
    }
  }

  /** The next rows, more than `limitBytes` of them unless they end before. An error ends the statement. */
  rows(limitBytes: number, asLines: boolean): EngineRows {
    return this.#guarded(() => this.#prepared.rows({ limitBytes, asLines, maxValueBytes: MAX_VALUE_BYTES }))
  }

  /** Runs to the end without reading rows. An error ends the statement. */
  discardRows(): void {
    this.#guarded(() => this.#prepared.discardRows())
  }

  #guarded<T>(run: () => T): T {
    try {
      this.#checkNotAborted()
      return run()
    } catch (error) {
      this.#end()
      // the snapshot of its transaction is too old: it can still read, and others may write
      if (this.#tookLock && error instanceof EngineError && (error.code & 0xff) === BUSY)
        this.#connection.unlock()
      throw error
    }
  }

  /** The write lock was taken away, or the connection ends: what the statement has changed is undone. */
  abort(): void {
    this.#isAborted = true
    this.#prepared.abort()
  }

  /** Ends a statement whose rows are not wanted any more; a change has happened already. */
  stop(): void {
    this.#end()
  }

  /** To be called after the last row. */
  finish(): StatementResult {
    const { statement, startedAt } = this.#context
    const isChange = statement.kind === 'insert' || statement.kind === 'change'
    const affectedRowCount = isChange ? this.#engine.changes : 0
    const lastInsertRowid = statement.kind === 'insert' ? this.#engine.lastInsertRowid : null
    const { columns, rowsRead, rowsWritten } = this.#prepared
    this.#end()
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
    if (this.#isAborted) throw new PreemptedError()
  }

  #end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#prepared.finalize()
    this.#connection.settle(this.#context.isUndone)
  }
}

/** Whether the statement is allowed to change something, as far as its text shows. */
export function isWriting(statement: Statement): boolean {
  return statement.needsWriteLock || statement.access === 'write' || statement.kind === 'explain'
}
