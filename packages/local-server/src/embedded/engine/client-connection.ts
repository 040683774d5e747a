import type { Statement } from '../../sql/statement.ts'
import { boundSearches } from '../../sql/vector-search.ts'
import type { TableChanges } from '../protocol/worker-messages.ts'
import { resolveArguments, type StatementArguments } from './arguments.ts'
import { ChangeCounter } from './change-counter.ts'
import type { Grant } from './engine-instance.ts'
import { MAX_VALUE_BYTES } from './limits.ts'
import { transactionTimeout } from './refusals.ts'
import type { StatementResult } from './result-encoder.ts'
import {
  DeniedError,
  type SqliteColumn,
  type SqliteConnection,
  SqliteError,
  type SqliteRows,
  type SqliteStatement,
} from './sqlite-connection.ts'
import type { TableRights } from './table-rights.ts'
import type { WriteQueue, Writer } from './write-queue.ts'

const BUSY = 5
/** Savepoint around what is compiled without being run. */
const UNDONE = 'baton_undone'
/** What cannot be told from its text may be anything. */
const MAY_CHANGE_SCHEMA: ReadonlySet<string> = new Set(['schema', 'unknown'])

/** What a client may do. */
export interface StatementRights {
  readonly write: boolean
  readonly tables: TableRights | null
}

/** What a connection reports. */
export interface ConnectionEvents {
  /** Whether changes are watched. */
  isWatched(): boolean
  /** To be called when a transaction that had the write lock has ended: whether it has changed the database. */
  hasCommitted(): boolean
  /** What a transaction has changed, where that is watched. */
  onChanges(changes: readonly TableChanges[]): void
  /** The connection has ended, and nothing of it would show in the engine's once that is reset. */
  onUnused(engine: SqliteConnection): void
}

/** The client of a call has left: what has not begun is not begun, what waits waits no longer. */
export class ClientLeftError extends Error {
  constructor() {
    super('the client has left')
  }
}

/** One client's connection to the database: runs single statements, and holds the write lock when one needs it. */
export class ClientConnection implements Writer {
  readonly #engine: SqliteConnection
  readonly #queue: WriteQueue
  readonly #events: ConnectionEvents
  #isTimedOut = false
  /** Whether no setting has been changed that a later client could see. */
  #isUnused = true
  /** The statement that has been prepared and has not ended. */
  #active: RunningStatement | null = null
  /** Null unless changes are watched. */
  #changes: ChangeCounter | null = null
  isRunning = false

  constructor(engine: SqliteConnection, queue: WriteQueue, events: ConnectionEvents) {
    this.#engine = engine
    this.#queue = queue
    this.#events = events
  }

  /** Whether no setting has been changed that a later client could see. */
  get isUnused(): boolean {
    return this.#isUnused
  }

  get isAutocommit(): boolean {
    return !this.#engine.inTransaction
  }

  /** For statements of the server's own. What they change of the connection shows: it is not used again. */
  get own(): SqliteConnection {
    this.#isUnused = false
    return this.#engine
  }

  /** The number of the call it works for from now on. */
  set call(call: number) {
    this.#engine.call = call
  }

  get holdsLock(): boolean {
    return this.#queue.isHeldBy(this)
  }

  /** Whether the transaction was taken away since the last request; asking clears it. */
  takeTimeout(): boolean {
    const isTimedOut = this.#isTimedOut
    this.#isTimedOut = false
    return isTimedOut
  }

  onPreempted(): void {
    this.#isTimedOut = true
    this.#abort()
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

  /** Within `working`: waits for the server or the client, at the risk of losing the write lock. */
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
   * Compiles a statement, for `begin` to start it. `rights` are the client's.
   * Compiling a change of the schema may have its effect already, so it waits for the write lock before.
   */
  async prepare(statement: Statement, rights: StatementRights): Promise<RunningStatement> {
    const startedAt = performance.now()
    let isUndone = false
    if (this.#events.isWatched() !== (this.#changes !== null)) this.#watch()
    try {
      if (changesSchema(statement)) {
        checkMayWrite(rights.write)
        await this.#lockForSchema()
      }
      if (statement.kind === 'explain' && changesSchema(statement)) {
        this.#engine.run(`SAVEPOINT ${UNDONE}`)
        isUndone = true
      }
      const grant = {
        write: isWriting(statement),
        attach: statement.kind === 'attach',
        tables: rights.tables,
      }
      const prepared = this.#prepare(statement, grant)
      const run = new RunningStatement(this, this.#engine, prepared, {
        statement,
        grant,
        isUndone,
        startedAt,
      })
      run.checkAgreement()
      this.#active = run
      return run
    } catch (error) {
      this.settle(isUndone)
      throw error
    }
  }

  /** Compiles a statement that is not to run, and lets `look` see it. */
  async examine<T>(
    statement: Statement,
    rights: StatementRights,
    look: (prepared: SqliteStatement) => T,
  ): Promise<T> {
    const mustUndo = changesSchema(statement)
    if (mustUndo) {
      checkMayWrite(rights.write)
      await this.#lockForSchema()
      this.#engine.run(`SAVEPOINT ${UNDONE}`)
    }
    try {
      const prepared = this.#prepare(statement, { write: mustUndo, attach: true, tables: rights.tables })
      try {
        return look(prepared)
      } finally {
        prepared.finalize()
      }
    } finally {
      if (mustUndo) this.#undo()
      this.#releaseLock()
    }
  }

  /** A statement has ended: gives the write lock back once no transaction is open. */
  settle(isUndone: boolean): void {
    this.#active = null
    if (isUndone) this.#undo()
    this.#releaseLock()
  }

  /** Gives the write lock back within a transaction that has not written anything. */
  unlock(): void {
    this.#queue.release(this)
  }

  close(): void {
    this.stopWaiting()
    this.#abort()
    this.#rollback()
    this.#queue.release(this)
    this.#engine.watch(null)
    if (this.#isUnused) this.#events.onUnused(this.#engine)
    else this.#engine.close()
  }

  #prepare(statement: Statement, grant: Grant): SqliteStatement {
    // many pragmas have their effect when they are compiled
    if (['pragma', 'attach'].includes(statement.explains ?? statement.kind)) this.#isUnused = false
    const prepared = this.#engine.prepare(boundSearches(statement.source), grant)
    if (prepared === null) throw new DeniedError('the engine finds no statement where there is one')
    return prepared
  }

  /** Compiles the statement anew if it had to wait for the write lock: what it was compiled for may have changed. */
  async lockFor(statement: Statement, grant: Grant): Promise<SqliteStatement | null> {
    return statement.needsWriteLock && (await this.#lock()) ? this.#prepare(statement, grant) : null
  }

  /** Whether it had to wait. */
  async #lock(): Promise<boolean> {
    const turn = this.#queue.acquire(this)
    if (turn === null) return false
    await turn
    return true
  }

  /**
   * What compiling a change of a vector index does, it does by statements of its own; when these notice that others have changed the
   * schema, it goes on with what they have freed. So the schema is read anew before.
   */
  async #lockForSchema(): Promise<void> {
    await this.#lock()
    this.#engine.run('SELECT 1 FROM sqlite_schema LIMIT 1')
  }

  #releaseLock(): void {
    if (this.#engine.inTransaction || !this.#queue.isHeldBy(this)) return
    // how the statement ended does not tell: one with OR FAIL fails, and what it did before is committed
    const hasCommitted = this.#events.hasCommitted()
    const changes = this.#changes?.take(hasCommitted) ?? []
    if (changes.length > 0) this.#events.onChanges(changes)
    this.#queue.release(this)
  }

  /** Takes back what compiling a change of the schema has done. */
  #undo(): void {
    if (!this.#engine.inTransaction) return // it was not begun, or its lock was taken away meanwhile
    this.#engine.run(`ROLLBACK TO ${UNDONE}`)
    this.#engine.run(`RELEASE ${UNDONE}`)
  }

  #abort(): void {
    this.#active?.abort()
    this.#active = null
  }

  /** Begins to count changes, or no longer does. */
  #watch(): void {
    this.#changes = this.#changes === null ? new ChangeCounter() : null
    this.#engine.watch(this.#changes)
  }

  #rollback(): void {
    this.#changes?.take(false)
    if (this.#engine.inTransaction) this.#engine.run('ROLLBACK')
  }
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
  readonly #connection: ClientConnection
  readonly #engine: SqliteConnection
  readonly #context: RunContext
  #prepared: SqliteStatement
  #isAborted = false
  #hasEnded = false
  /** Whether it has taken the write lock for a transaction that had not written before. */
  #tookLock = false

  /** Made by `ClientConnection.prepare` only. */
  constructor(
    connection: ClientConnection,
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
  rows(limitBytes: number, asLines: boolean): SqliteRows {
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
      if (this.#tookLock && error instanceof SqliteError && (error.code & 0xff) === BUSY)
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
    if (this.#isAborted) throw transactionTimeout()
  }

  #end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#prepared.finalize()
    this.#connection.settle(this.#context.isUndone)
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
