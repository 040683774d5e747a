import { limitVectorSearches, type Statement } from '@batonsql/server-common/sql'
import type { TableChanges } from '../protocol/worker-messages.ts'
import { ChangeCounter } from './change-counter.ts'
import type { Grant } from './engine-instance.ts'
import {
  needsWritePermission,
  type RunContext,
  RunningStatement,
  type StatementOwner,
} from './running-statement.ts'
import { changesSchema } from './schema-change.ts'
import { DeniedError, type SqliteConnection, type SqliteStatement } from './sqlite-connection.ts'
import type { TableAuthorizer } from './table-authorizer.ts'
import type { WriteLock, Writer } from './write-lock.ts'

/** Makes the engine read the schema again if another connection has changed it; compiling a statement does not. */
const READ_SCHEMA = 'SELECT 1 FROM sqlite_schema LIMIT 1'
/** Savepoint around statements that are compiled without being executed. */
const UNDO_SAVEPOINT = 'baton_undone'
/** Kinds of statements that are kept compiled in case they are repeated. */
const CACHEABLE_KINDS: ReadonlySet<string> = new Set(['query', 'insert', 'change'])

export interface StatementPermissions {
  readonly write: boolean
  readonly tables: TableAuthorizer | null
}

export interface ConnectionEvents {
  isWatched(): boolean
  /** Called when a transaction with the write lock has ended. @returns whether it has changed the database */
  hasCommitted(): boolean
  /** Receives the changes of a transaction, if they are watched. */
  onChanges(changes: readonly TableChanges[]): void
  /** Called when the connection was closed, and its engine connection can be reused after a reset. */
  onReusable(engine: SqliteConnection): void
}

/** Thrown if the client of a call has disconnected: pending statements are skipped, and waits end. */
export class ClientDisconnectedError extends Error {
  constructor() {
    super('the client has disconnected')
  }
}

/** A client's connection to the database: runs single statements, and acquires the write lock if one needs it. */
export class ClientConnection implements Writer, StatementOwner {
  readonly #engine: SqliteConnection
  readonly #writeLock: WriteLock
  readonly #events: ConnectionEvents
  #isTimedOut = false
  #isReusable = true
  /** The statement that was prepared and has not ended. */
  #active: RunningStatement | null = null
  /** Null unless changes are watched. */
  #changes: ChangeCounter | null = null
  /**
   * The last statement of an open transaction, kept compiled in case it is repeated. The schema cannot change in between.
   */
  #lastStatement: { readonly sql: string; readonly prepared: SqliteStatement } | null = null
  /** Whether a call is being executed, except while it waits for the server or the client. */
  isRunning = false

  constructor(engine: SqliteConnection, writeLock: WriteLock, events: ConnectionEvents) {
    this.#engine = engine
    this.#writeLock = writeLock
    this.#events = events
  }

  /** Whether a later client can reuse the engine connection: no setting that it would see has changed. */
  get isReusable(): boolean {
    return this.#isReusable
  }

  /** Whether `changes()`, `total_changes()` and `last_insert_rowid()` are those of a new connection. */
  get hasInitialCounts(): boolean {
    return this.#engine.hasInitialCounts
  }

  get isAutocommit(): boolean {
    return !this.#engine.isInTransaction
  }

  /** The engine connection for internal statements. It is not reused afterwards, because they may change its settings. */
  get internalEngine(): SqliteConnection {
    this.#isReusable = false
    return this.#engine
  }

  set call(call: number) {
    this.#engine.call = call
  }

  get holdsLock(): boolean {
    return this.#writeLock.isHeldBy(this)
  }

  /** Returns whether the transaction was preempted since the last request, and resets that flag. */
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

  /** Runs work during which the write lock cannot be preempted. */
  async withoutPreemption<T>(run: () => Promise<T>): Promise<T> {
    this.isRunning = true
    try {
      return await run()
    } finally {
      this.isRunning = false
      this.#writeLock.onRequestEnd(this)
    }
  }

  /** Waits for the server or the client within `withoutPreemption`; the write lock can be preempted meanwhile. */
  async withPreemption<T>(wait: () => Promise<T>): Promise<T> {
    this.isRunning = false
    this.#writeLock.onRequestEnd(this)
    try {
      return await wait()
    } finally {
      this.isRunning = true
    }
  }

  /** Cancels a wait for the write lock, because the client has disconnected. */
  stopWaiting(): void {
    this.#writeLock.cancel(this, new ClientDisconnectedError())
  }

  /**
   * Compiles a statement, to be started with `begin`. `permissions` are those of the client. Compiling a schema change may
   * execute it, so the write lock is acquired first.
   */
  async prepare(statement: Statement, permissions: StatementPermissions): Promise<RunningStatement> {
    const startedAt = performance.now()
    let mustUndo = false
    if (this.#events.isWatched() !== (this.#changes !== null)) this.#watch()
    try {
      if (changesSchema(statement)) {
        checkMayWrite(permissions.write)
        await this.#lockForSchema()
      }
      if (statement.kind === 'explain' && changesSchema(statement)) {
        this.#engine.run(`SAVEPOINT ${UNDO_SAVEPOINT}`)
        mustUndo = true
      }
      const grant = {
        write: needsWritePermission(statement),
        attach: statement.kind === 'attach',
        tables: permissions.tables,
      }
      const prepared = this.#prepare(statement, grant)
      const run = new RunningStatement(this, this.#engine, prepared, {
        statement,
        grant,
        mustUndo,
        startedAt,
      })
      run.checkParsedAlike()
      this.#active = run
      return run
    } catch (error) {
      this.onStatementEnd(mustUndo)
      throw error
    }
  }

  /** Compiles a statement without executing it, and passes it to `inspect`. */
  async examine<T>(
    statement: Statement,
    permissions: StatementPermissions,
    inspect: (prepared: SqliteStatement) => T,
  ): Promise<T> {
    const mayChange = changesSchema(statement)
    let mustUndo = false
    try {
      if (mayChange) {
        checkMayWrite(permissions.write)
        await this.#lockForSchema()
        this.#engine.run(`SAVEPOINT ${UNDO_SAVEPOINT}`)
        mustUndo = true
      } else if (this.isAutocommit) this.#engine.run(READ_SCHEMA)
      const prepared = this.#prepare(statement, {
        write: mayChange,
        attach: true,
        tables: permissions.tables,
      })
      try {
        return inspect(prepared)
      } finally {
        prepared.finalize()
      }
    } finally {
      if (mustUndo) this.#undo()
      this.#releaseLock()
    }
  }

  finalizeOrCache(
    prepared: SqliteStatement,
    { statement, grant }: Pick<RunContext, 'statement' | 'grant'>,
  ): void {
    const isPlain = CACHEABLE_KINDS.has(statement.kind) && (grant.tables ?? null) === null
    if (!isPlain || !this.#engine.isInTransaction) return prepared.finalize()
    prepared.reset()
    this.#lastStatement = { sql: limitVectorSearches(statement.source), prepared }
  }

  onStatementEnd(mustUndo: boolean): void {
    this.#active = null
    if (mustUndo) this.#undo()
    this.#releaseLock()
  }

  releaseUnusedLock(): void {
    this.#writeLock.release(this)
  }

  close(): void {
    this.stopWaiting()
    this.#abort()
    this.#rollback()
    this.#writeLock.release(this)
    this.#engine.watch(null)
    if (this.#isReusable) this.#events.onReusable(this.#engine)
    else this.#engine.close()
  }

  #prepare(statement: Statement, grant: Grant): SqliteStatement {
    // compiling a pragma often executes it
    if (['pragma', 'attach'].includes(statement.explains ?? statement.kind)) this.#isReusable = false
    const sql = limitVectorSearches(statement.source)
    const last = this.#lastStatement
    this.#lastStatement = null
    if (last?.sql === sql && grant.tables === null) return last.prepared
    last?.prepared.finalize()
    const prepared = this.#engine.prepare(sql, grant)
    if (prepared === null) throw new DeniedError('the engine found no statement in the text')
    return prepared
  }

  async lockFor(statement: Statement, grant: Grant): Promise<SqliteStatement | null> {
    return statement.needsWriteLock && (await this.#lock()) ? this.#prepare(statement, grant) : null
  }

  /** Acquires the write lock. @returns whether it had to wait */
  async #lock(): Promise<boolean> {
    const acquired = this.#writeLock.acquire(this)
    if (acquired === null) return false
    await acquired
    return true
  }

  /**
   * Acquires the write lock and reads the schema again. Compiling a change to a vector index executes internal statements; if they
   * detect that the schema was changed, the engine continues with memory that they have freed.
   */
  async #lockForSchema(): Promise<void> {
    await this.#lock()
    this.#engine.run(READ_SCHEMA)
  }

  #releaseLock(): void {
    if (this.#engine.isInTransaction || !this.#writeLock.isHeldBy(this)) return
    // the statement's result does not show this: with OR FAIL it fails, but its earlier changes are committed
    const hasCommitted = this.#events.hasCommitted()
    const changes = this.#changes?.take(hasCommitted) ?? []
    if (changes.length > 0) this.#events.onChanges(changes)
    this.#writeLock.release(this)
  }

  /** Undoes the effects of compiling a schema change. */
  #undo(): void {
    if (!this.#engine.isInTransaction) return // not begun, or preempted meanwhile
    this.#engine.run(`ROLLBACK TO ${UNDO_SAVEPOINT}`)
    this.#engine.run(`RELEASE ${UNDO_SAVEPOINT}`)
  }

  #abort(): void {
    this.#active?.abort()
    this.#active = null
  }

  /** Starts or stops counting changes. */
  #watch(): void {
    this.#changes = this.#changes === null ? new ChangeCounter() : null
    this.#engine.watch(this.#changes)
  }

  #rollback(): void {
    this.#lastStatement?.prepared.finalize()
    this.#lastStatement = null
    this.#changes?.take(false)
    if (this.#engine.isInTransaction) this.#engine.run('ROLLBACK')
  }
}

/** Called before compiling: the authorizer would also deny the statement, but its rollback would leave traces in the WAL. */
function checkMayWrite(mayWrite: boolean): void {
  if (!mayWrite) throw new DeniedError('the schema cannot be changed')
}
