import type { Command } from './model-sql.ts'
import type { World } from './world.ts'

/** Changes that became durable together: a transaction, or a statement outside of one. */
export interface Commit {
  readonly tags: readonly number[]
  readonly at: number
}

/** The result of a statement that succeeded. */
export interface StatementResult {
  readonly columns: readonly string[]
  readonly rows: readonly number[]
  readonly changed: number
  readonly rowid: number | null
}

/** A statement that the database rejected. */
export class SqlFailure extends Error {
  /** Undefined for errors of Turso's engine. */
  readonly code: string | undefined
  constructor(code: string | undefined, message: string) {
    super(message)
    this.code = code
  }
}

/** Thrown after the server has stopped, or the stream was dropped. */
export class DisconnectedError extends Error {}

const TAKEOVER_MS = 5_000

/** One database: its durable changes, and its write lock. */
export class ModelDatabase {
  readonly commits: Commit[] = []
  /** Counts durable changes of all tables. */
  version = 0
  /** The durable rows of the table t. */
  readonly rows: number[] = []
  readonly world: World
  holder: ModelConnection | null = null
  #lockedAt = 0
  #waiting: { connection: ModelConnection; resolve: () => void; reject: (error: unknown) => void }[] = []
  #cancelTakeover: () => void = () => {}
  /** Number of times that a transaction lost the lock to a waiting one. */
  takeovers = 0

  /** Whether it rejects a writer at once if the lock is taken, as Turso's engine does. */
  readonly isTursodb: boolean

  constructor(world: World, isTursodb = false) {
    this.world = world
    this.isTursodb = isTursodb
  }

  commit(tags: readonly number[], rows: readonly number[]): void {
    this.version += 1
    if (tags.length > 0) this.commits.push({ tags, at: this.world.now })
    this.rows.push(...rows)
  }

  /** Acquires the write lock. @returns a promise if the connection has to wait for it */
  acquire(connection: ModelConnection): Promise<void> | undefined {
    if (this.holder === connection) return undefined
    if (!this.holder) {
      this.#grant(connection)
      return undefined
    }
    if (this.isTursodb) throw new SqlFailure(undefined, 'database is locked')
    const wait = new Promise<void>((resolve, reject) => {
      this.#waiting.push({ connection, resolve, reject })
    })
    this.#scheduleTakeover()
    return wait
  }

  release(connection: ModelConnection): void {
    if (this.holder !== connection) return
    this.#cancelTakeover()
    this.holder = null
    const next = this.#waiting.shift()
    if (!next) return
    this.#grant(next.connection)
    next.resolve()
    this.#scheduleTakeover()
  }

  #grant(connection: ModelConnection): void {
    this.holder = connection
    this.#lockedAt = this.world.now
  }

  /** Takes the lock from its holder when it has been held for `TAKEOVER_MS` and another connection waits. */
  #scheduleTakeover(): void {
    this.#cancelTakeover()
    if (this.#waiting.length === 0) return
    const ms = Math.max(0, this.#lockedAt + TAKEOVER_MS - this.world.now)
    this.#cancelTakeover = this.world.after(ms, () => {
      this.takeovers += 1
      this.holder?.timeOut()
    })
  }

  /** Stops the server: removes all transactions and all waiters. */
  crash(): void {
    this.#cancelTakeover()
    this.holder = null
    for (const { reject } of this.#waiting.splice(0)) reject(new DisconnectedError('the server has stopped'))
  }
}

interface OpenTransaction {
  /** Whether it began with SAVEPOINT; if so, RELEASE commits it. */
  readonly beganWithSavepoint: boolean
  /** The snapshot that it reads; null before its first read. */
  snapshot: number | null
  /** The version of the database at the time of the snapshot. */
  version: number
  ownRows: { tag: number; table: 't' | 'child' | 'parent' }[]
  savepoints: { name: string; length: number; missing: readonly number[] }[]
  /** Parents that rows refer to, but that do not exist. */
  missing: readonly number[]
}

const NO_ROWS: StatementResult = { columns: [], rows: [], changed: 0, rowid: null }

/** A result that cannot be encoded as JSON; the whole request gets HTTP 500. */
export class Unreadable extends Error {}

/** One connection to the database: a stream of the server. */
export class ModelConnection {
  readonly database: ModelDatabase
  transaction: OpenTransaction | null = null
  /** Whether its transaction lost the lock to a waiting one; the next request gets the error. */
  isTimedOut = false
  /** Whether a statement is running, so that its transaction cannot be ended now. */
  isBusy = false
  #isEndDelayed = false
  #lastRowid = 0
  isClosed = false
  readonly #getVisibleCount: () => number

  /** @param getVisibleCount how many rows of the table this connection's server has */
  constructor(database: ModelDatabase, getVisibleCount: () => number = () => database.rows.length) {
    this.database = database
    this.#getVisibleCount = getVisibleCount
  }

  get isAutocommit(): boolean {
    return this.transaction === null
  }

  /** Ends its transaction in favor of one that waits for the lock. */
  timeOut(): void {
    if (this.isBusy) {
      this.#isEndDelayed = true
      return
    }
    this.rollback()
    this.isTimedOut = true
  }

  onFinished(): void {
    this.isBusy = false
    if (this.#isEndDelayed && this.transaction && this.database.holder === this) this.timeOut()
    this.#isEndDelayed = false
  }

  rollback(): void {
    this.transaction = null
    this.database.release(this)
  }

  close(): void {
    this.isClosed = true
    this.rollback()
  }

  /**
   * Runs a statement.
   * @param isBusyDatabase whether the lock is taken and the statement must fail instead of waiting
   * @throws SqlFailure
   */
  async run(command: Command, isBusyDatabase = false): Promise<StatementResult> {
    const transaction = this.transaction
    switch (command.kind) {
      case 'begin': {
        if (command.isReadonly && this.database.isTursodb)
          throw new SqlFailure(undefined, 'prepare failed: near "READONLY": syntax error')
        // inside a transaction it also acquires the lock, and holds it
        if (transaction && command.mode === 'immediate') await this.#lock(isBusyDatabase)
        if (transaction) throw unknownError('cannot start a transaction within a transaction')
        if (command.mode === 'immediate') await this.#lock(isBusyDatabase)
        this.#begin(false)
        return NO_ROWS
      }
      case 'commit': {
        if (!transaction) throw unknownError('cannot commit - no transaction is active')
        this.#commit(transaction)
        return NO_ROWS
      }
      case 'rollback': {
        if (!transaction) throw unknownError('cannot rollback - no transaction is active')
        this.rollback()
        return NO_ROWS
      }
      case 'savepoint': {
        const openTransaction = transaction ?? this.#begin(true)
        openTransaction.savepoints.push({
          name: command.name,
          length: openTransaction.ownRows.length,
          missing: openTransaction.missing,
        })
        return NO_ROWS
      }
      case 'release':
      case 'rollback to':
        return this.#endSavepoint(command.kind, command.name)
      case 'insert':
        return await this.#insert(command, isBusyDatabase)
      case 'select':
        return { ...NO_ROWS, columns: ['a'], rows: this.#readRows() }
      case 'guard': {
        if (this.#readRows().join() !== command.rows.join()) throw unknownError('malformed JSON')
        return { ...NO_ROWS, columns: ['1'], rows: [1] }
      }
      case 'unreadable':
        throw new Unreadable('invalid utf-8 sequence of 1 bytes from index 0')
      case 'large':
        this.#readSnapshot()
        return { ...NO_ROWS, columns: ['a'], rows: [1] }
      case 'constant':
        return { ...NO_ROWS, columns: ['1'], rows: [1] }
      case 'nothing':
        return NO_ROWS
      case 'assertion':
        throw unknownError('malformed JSON')
      case 'missing table':
        throw unknownError('no such table: missing')
      default:
        throw new SqlFailure('SQL_PARSE_ERROR', command.message)
    }
  }

  #begin(beganWithSavepoint: boolean): OpenTransaction {
    const snapshot = this.database.holder === this ? this.database.rows.length : null
    this.transaction = {
      beganWithSavepoint,
      snapshot,
      version: this.database.version,
      ownRows: [],
      savepoints: [],
      missing: [],
    }
    return this.transaction
  }

  #readRows(): number[] {
    const snapshot = this.#readSnapshot()
    const ownTags = this.transaction?.ownRows.filter(({ table }) => table === 't').map(({ tag }) => tag) ?? []
    return [...this.database.rows.slice(0, snapshot), ...ownTags]
  }

  #readSnapshot(): number {
    const { transaction } = this
    if (!transaction) return this.#getVisibleCount()
    if (transaction.snapshot === null) this.#setSnapshot(transaction, this.#getVisibleCount())
    return transaction.snapshot as unknown as number
  }

  /** Sets the snapshot of a transaction. */
  #setSnapshot(transaction: OpenTransaction, snapshot: number): void {
    transaction.snapshot = snapshot
    // changes that a replica does not have yet are newer than its snapshot
    transaction.version = snapshot === this.database.rows.length ? this.database.version : -1
  }

  async #lock(isBusyDatabase: boolean): Promise<void> {
    const isStale = (): boolean =>
      this.transaction !== null &&
      this.transaction.snapshot !== null &&
      this.transaction.version !== this.database.version
    if (isBusyDatabase || isStale()) throw this.database.isTursodb ? staleError() : lockedError()
    if (this.isClosed) throw new DisconnectedError('the stream was dropped')
    await this.database.acquire(this)
    if (this.isClosed) {
      this.database.release(this)
      throw new DisconnectedError('the stream was dropped')
    }
    if (isStale()) throw this.database.isTursodb ? staleError() : lockedError()
    if (this.transaction?.snapshot === null) this.#setSnapshot(this.transaction, this.database.rows.length)
  }

  #commit(transaction: OpenTransaction): void {
    if (transaction.missing.length > 0) throw constraintError('FOREIGN KEY constraint failed')
    if (transaction.ownRows.length > 0)
      this.database.commit(
        transaction.ownRows.filter(({ table }) => table !== 'parent').map(({ tag }) => tag),
        transaction.ownRows.filter(({ table }) => table === 't').map(({ tag }) => tag),
      )
    this.rollback()
  }

  #endSavepoint(kind: 'release' | 'rollback to', name: string): StatementResult {
    const transaction = this.transaction
    const index = transaction?.savepoints.findLastIndex((point) => point.name === name) ?? -1
    const point = transaction?.savepoints[index]
    if (!transaction || !point) throw unknownError(`no such savepoint: ${name}`)
    if (kind === 'release') {
      if (index === 0 && transaction.beganWithSavepoint) this.#commit(transaction)
      else transaction.savepoints.length = index
      return NO_ROWS
    }
    transaction.ownRows.length = point.length
    transaction.missing = point.missing
    transaction.savepoints.length = index + 1
    return NO_ROWS
  }

  async #insert(
    { table, rows, conflict, isReturning }: Command & { kind: 'insert' },
    isBusyDatabase: boolean,
  ): Promise<StatementResult> {
    await this.#lock(isBusyDatabase)
    // the lock may have been granted after its transaction had ended
    const isImplicitTransaction = this.transaction === null
    const transaction = this.transaction ?? this.#begin(false)
    const before = { length: transaction.ownRows.length, missing: transaction.missing }
    let failure: SqlFailure | null = null
    for (const tag of rows) {
      if (tag === null) {
        failure = constraintError(`NOT NULL constraint failed: ${table}.a`)
        break
      }
      transaction.ownRows.push({ tag, table })
      if (table === 'child') transaction.missing = [...transaction.missing, tag]
      if (table === 'parent') transaction.missing = transaction.missing.filter((parent) => parent !== tag)
    }
    if (failure && conflict !== 'fail') {
      transaction.ownRows.length = before.length
      transaction.missing = before.missing
      if (conflict === 'rollback') this.rollback()
    }
    if (isImplicitTransaction && this.transaction) {
      try {
        this.#commit(transaction)
      } catch (error) {
        this.rollback()
        throw error
      }
    }
    if (failure) throw failure
    // 0 would mean that the connection has inserted nothing
    this.#lastRowid += rows.length
    const columns = isReturning ? ['a'] : []
    const returned = isReturning ? rows.filter((tag) => tag !== null) : []
    return { columns, rows: returned, changed: rows.length, rowid: this.#lastRowid }
  }
}

const unknownError = (message: string): SqlFailure =>
  new SqlFailure('SQLITE_UNKNOWN', `SQLite error: ${message}`)
const constraintError = (message: string): SqlFailure =>
  new SqlFailure('SQLITE_CONSTRAINT', `SQLite error: ${message}`)
const staleError = (): SqlFailure =>
  new SqlFailure(
    undefined,
    'step failed: Database snapshot is stale. You must rollback and retry the whole transaction.',
  )
const lockedError = (): SqlFailure => new SqlFailure('SQLITE_BUSY', 'SQLite error: database is locked')
