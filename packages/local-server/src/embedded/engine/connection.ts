import type { Statement } from '../../sql/statement.ts'
import type { TableChanges } from '../protocol/worker-messages.ts'
import { ChangeCounter } from './change-counter.ts'
import { DeniedError, type EngineConnection, type EngineStatement } from './engine-connection.ts'
import type { Grant } from './engine-instance.ts'
import { isWriting, RunningStatement } from './running-statement.ts'
import type { TableRights } from './table-rights.ts'
import type { WriteQueue, Writer } from './write-queue.ts'

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
  /** Whether somebody wants to know what is changed. */
  isWatched(): boolean
  /** To be called when a transaction that had the write lock has ended: whether it has changed the database. */
  hasCommitted(): boolean
  /** What a transaction has changed, where that is watched. */
  onChanges(changes: readonly TableChanges[]): void
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
  /** The statement that has been prepared and has not ended. */
  #active: RunningStatement | null = null
  /** Null unless somebody wants to know what is changed. */
  #changes: ChangeCounter | null = null
  isRunning = false

  constructor(engine: EngineConnection, queue: WriteQueue, events: ConnectionEvents) {
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

  /** For statements of the server's own. What they change of the connection shows: nobody gets it afterwards. */
  get own(): EngineConnection {
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
    look: (prepared: EngineStatement) => T,
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

  #prepare(statement: Statement, grant: Grant): EngineStatement {
    // many pragmas have their effect when they are compiled
    if (['pragma', 'attach'].includes(statement.explains ?? statement.kind)) this.#isUnused = false
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
