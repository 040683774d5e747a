import { resolveArguments, type StatementArguments } from './arguments.ts'
import {
  DeniedError,
  type EngineColumn,
  type EngineConnection,
  type EngineRows,
  type EngineStatement,
} from './engine-connection.ts'
import type { Grant } from './engine-instance.ts'
import type { StatementResult } from './result-encoder.ts'
import type { Statement } from './sql/statement.ts'
import type { WriteQueue, Writer } from './write-queue.ts'

const MAX_VALUE_BYTES = 5_000_000
/** Savepoint around what is compiled without being run. */
const UNDONE = 'baton_undone'
/** What cannot be told from its text may be anything. */
const MAY_CHANGE_SCHEMA: ReadonlySet<string> = new Set(['schema', 'unknown'])

/** What a connection reports. */
export interface ConnectionEvents {
  /** A transaction has ended that may have changed the database. */
  onCommit(): void
  /** The connection has ended, and nothing of it would show in the engine's once that is reset. */
  onUnused(engine: EngineConnection): void
}

/** The client of a call has left: what has not begun is not begun, what waits waits no longer. */
export class ClientLeftError extends Error {
  constructor() {
    super('the client has left')
  }
}

/** One client's connection to the database: runs single statements, and holds the write lock when one needs it. */
export class Connection implements Writer {
  readonly #engine: EngineConnection
  readonly #queue: WriteQueue
  readonly #events: ConnectionEvents
  #isTimedOut = false
  /** Whether no setting has been changed that a later client could see. */
  #isUnused = true
  isRunning = false

  constructor(engine: EngineConnection, queue: WriteQueue, events: ConnectionEvents) {
    this.#engine = engine
    this.#queue = queue
    this.#events = events
  }

  get isAutocommit(): boolean {
    return !this.#engine.inTransaction
  }

  /** The number of the call it works for from now on. */
  set call(call: number) {
    this.#engine.call = call
  }

  /** Whether the transaction was taken away since the last request; asking clears it. */
  takeTimeout(): boolean {
    const isTimedOut = this.#isTimedOut
    this.#isTimedOut = false
    return isTimedOut
  }

  onPreempted(): void {
    this.#isTimedOut = true
    this.#rollback()
  }

  /** While it runs, the write lock cannot be taken away. */
  async working<T>(run: () => Promise<T>): Promise<T> {
    this.isRunning = true
    try {
      return await run()
    } finally {
      this.isRunning = false
      this.#queue.requestEnded(this)
    }
  }

  /** Within `working`: waits for somebody outside, at the risk of losing the write lock. */
  async waiting<T>(wait: () => Promise<T>): Promise<T> {
    this.isRunning = false
    this.#queue.requestEnded(this)
    try {
      return await wait()
    } finally {
      this.isRunning = true
    }
  }

  /** The client has left: a wait for the write lock ends. */
  stopWaiting(): void {
    this.#queue.cancel(this, new ClientLeftError())
  }

  /**
   * Compiles a statement, for `begin` to start it. `mayWrite` says whether the client has permission to write.
   * Compiling a change of the schema may have its effect already, so it waits for the write lock before.
   */
  async prepare(statement: Statement, mayWrite: boolean): Promise<RunningStatement> {
    const startedAt = performance.now()
    try {
      if (changesSchema(statement)) {
        checkMayWrite(mayWrite)
        await this.#lock()
      }
      if (isUndone(statement)) this.#engine.run(`SAVEPOINT ${UNDONE}`)
      const grant = { write: isWriting(statement) }
      const prepared = this.#prepare(statement, grant)
      const run = new RunningStatement(this, this.#engine, prepared, { statement, grant, startedAt })
      run.checkAgreement()
      return run
    } catch (error) {
      this.settle(statement, false)
      throw error
    }
  }

  /** Compiles a statement that is not to run, and lets `look` see it. */
  async examine<T>(
    statement: Statement,
    mayWrite: boolean,
    look: (prepared: EngineStatement) => T,
  ): Promise<T> {
    const mustUndo = changesSchema(statement)
    if (mustUndo) {
      checkMayWrite(mayWrite)
      await this.#lock()
      this.#engine.run(`SAVEPOINT ${UNDONE}`)
    }
    try {
      const prepared = this.#prepare(statement, { write: mustUndo, attach: true })
      try {
        return look(prepared)
      } finally {
        prepared.finalize()
      }
    } finally {
      if (mustUndo) this.#undo()
      this.#releaseLock(false)
    }
  }

  /** A statement has ended: gives the write lock back once no transaction is open. */
  settle(statement: Statement, isDone: boolean): void {
    if (isUndone(statement)) this.#undo()
    this.#releaseLock(isDone)
  }

  close(): void {
    this.stopWaiting()
    this.#rollback()
    this.#queue.release(this)
    if (this.#isUnused) this.#events.onUnused(this.#engine)
    else this.#engine.close()
  }

  #prepare(statement: Statement, grant: Grant): EngineStatement {
    if (statement.kind === 'pragma' || statement.kind === 'attach') this.#isUnused = false
    const prepared = this.#engine.prepare(statement.source, grant)
    if (prepared === null) throw new DeniedError('the engine finds no statement where there is one')
    return prepared
  }

  /** Compiles the statement anew if it had to wait for the write lock: what it was compiled for may have changed. */
  async lockFor(statement: Statement, grant: Grant): Promise<EngineStatement | null> {
    return statement.needsWriteLock && (await this.#lock()) ? this.#prepare(statement, grant) : null
  }

  /** Whether it had to wait. */
  async #lock(): Promise<boolean> {
    const turn = this.#queue.acquire(this)
    if (turn === null) return false
    await turn
    return true
  }

  /** A change that went well has been committed once no transaction is open. */
  #releaseLock(isDone: boolean): void {
    if (this.#engine.inTransaction || !this.#queue.isHeldBy(this)) return
    if (isDone) this.#events.onCommit()
    this.#queue.release(this)
  }

  /** Takes back what compiling a change of the schema has done. */
  #undo(): void {
    if (!this.#engine.inTransaction) return // it was not begun, or its lock was taken away meanwhile
    this.#engine.run(`ROLLBACK TO ${UNDONE}`)
    this.#engine.run(`RELEASE ${UNDONE}`)
  }

  #rollback(): void {
    if (this.#engine.inTransaction) this.#engine.run('ROLLBACK')
  }
}

/** What a statement is compiled from, and when that was. */
interface RunContext {
  readonly statement: Statement
  readonly grant: Grant
  readonly startedAt: number
}

/** A statement on its way: `begin` it, read it to the end and call `finish`, or call `stop`. */
export class RunningStatement {
  readonly #connection: Connection
  readonly #engine: EngineConnection
  readonly #context: RunContext
  #prepared: EngineStatement
  #isEnded = false

  /** Made by `Connection.prepare` only. */
  constructor(
    connection: Connection,
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
      const isBare = statement.kind === 'explain' && given.args.length === 0 && given.namedArgs.length === 0
      const values = isBare ? [] : resolveArguments(this.#prepared.parameters, given)
      const anew = await this.#connection.lockFor(statement, grant)
      if (anew !== null) {
        this.#prepared.finalize()
        this.#prepared = anew
      }
      this.#prepared.bind(values)
    } catch (error) {
      this.#end(false)
      throw error
    }
  }

  /** The next rows, at least `limitBytes` of them unless they end before. An error ends the statement. */
  rows(limitBytes: number, asLines: boolean): EngineRows {
    try {
      return this.#prepared.rows({ limitBytes, asLines, maxValueBytes: MAX_VALUE_BYTES })
    } catch (error) {
      this.#end(false)
      throw error
    }
  }

  /** Runs to the end without reading rows. An error ends the statement. */
  discardRows(): void {
    try {
      this.#prepared.discardRows()
    } catch (error) {
      this.#end(false)
      throw error
    }
  }

  /** Ends a statement whose rows are not wanted any more; a change has happened already. */
  stop(): void {
    this.#end(true)
  }

  /** To be called after the last row. */
  finish(): StatementResult {
    const { statement, startedAt } = this.#context
    const isChange = statement.kind === 'insert' || statement.kind === 'change'
    const affectedRowCount = isChange ? this.#engine.changes : 0
    const lastInsertRowid = statement.kind === 'insert' ? this.#engine.lastInsertRowid : null
    const { columns, rowsRead, rowsWritten } = this.#prepared
    this.#end(statement.verb !== 'ROLLBACK')
    const durationMs = Math.round((performance.now() - startedAt) * 1_000) / 1_000
    return {
      columns,
      rows: '',
      affectedRowCount,
      lastInsertRowid,
      rowsRead,
      rowsWritten,
      durationMs,
    }
  }

  #end(isDone: boolean): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#prepared.finalize()
    this.#connection.settle(this.#context.statement, isDone)
  }
}

/** Whether the statement is allowed to change something, as far as its text shows. */
function isWriting(statement: Statement): boolean {
  return statement.needsWriteLock || statement.access === 'write' || statement.kind === 'explain'
}

/**
 * Whether compiling the statement, or what it explains, may change the schema: for libSQL a change of a vector index
 * does, even one the authorizer then refuses.
 */
function changesSchema(statement: Statement): boolean {
  return MAY_CHANGE_SCHEMA.has(statement.explains ?? statement.kind)
}

/** Before compiling: the authorizer would refuse it too, but what it then undoes leaves its traces in the log. */
function checkMayWrite(mayWrite: boolean): void {
  if (!mayWrite) throw new DeniedError('a change of the schema')
}

/** An EXPLAIN changes nothing, whatever compiling it has done. */
function isUndone(statement: Statement): boolean {
  return statement.kind === 'explain' && changesSchema(statement)
}
