import { beginStatement, type TransactionMode } from '../codec/batch.ts'
import { type ArrayRow, type ObjectRow, ResultSet } from '../codec/result.ts'
import {
  type EncodedStatement,
  encodeBatch,
  encodeSql,
  encodeStatement,
  type InArgs,
  type InStatement,
  transactionControl,
} from '../codec/statement.ts'
import { checkTimeout } from '../config.ts'
import { DatabaseError, HttpError, ProtocolError, SqlError, StreamError, TransportError } from '../errors.ts'
import { type ClientEvent, nextId } from '../events.ts'
import { STREAM_IDLE_MS } from '../limits.ts'
import type { BatchOptions, CallOptions, Executor, StatementOptions } from '../options.ts'
import type { WireStreamResult } from '../wire.ts'
import { RawSavepoints } from './raw-savepoints.ts'
import { type Entry, type Lose, type Results, SqlRequest } from './sql-request.ts'
import { StatementQueue } from './statement-queue.ts'
import type { StreamConnection } from './stream-connection.ts'
import { TransactionClock } from './transaction-clock.ts'

/** A stream in the hands of a cursor. */
export interface Borrowed {
  readonly connection: StreamConnection
  readonly inTransaction: boolean
  /** Aborted when the stream is ended under the cursor's hands. */
  readonly signal: AbortSignal
  readonly lose: Lose
  fail(error: unknown): void
  giveBack(): void
}

/** For cursors: takes a stream for itself until it is given back. */
export let borrowStream: (stream: Stream) => Promise<Borrowed>

/**
 * A connection held by the server from request to request. Statements given while a request is under way leave together
 * with the next one. The server closes a stream after 10 s without a request, and a transaction on it may lose the
 * write slot after 5 s; what comes after rejects with a StreamError.
 *
 * For adapters; applications want `client.transaction()`.
 */
export class Stream implements Executor, AsyncDisposable {
  readonly #connection: StreamConnection
  readonly #queue: StatementQueue
  #inTransaction = false
  #clock: TransactionClock | null = null
  /** Number of the transaction in events; null when its end was told. */
  #id: number | null = null
  /** Takes the stream out of a cursor's hands. */
  #breakCursor: (() => void) | null = null
  /** Told when nothing more can be run. */
  readonly #onEnd = new Set<() => void>()
  #lost: StreamError | null = null
  readonly #savepoints = new RawSavepoints()
  #closing = false
  /** The way to the server failed, so that its end is only tried. */
  #isBroken = false
  #pumping: Promise<void> | null = null

  constructor(connection: StreamConnection) {
    this.#connection = connection
    this.#queue = new StatementQueue(connection.http.config)
    connection.onAbandon = () =>
      this.#lose(this.#inTransaction ? 'TRANSACTION_LOST' : 'STREAM_CLOSED', 'the client was closed')
  }

  /** Whether a transaction was begun and not ended, as far as the client knows. */
  get inTransaction(): boolean {
    return this.#inTransaction
  }

  /** Whether statements can still be run: neither closed nor lost. */
  get isOpen(): boolean {
    return !this.#closing && this.#lost === null
  }

  /** When others that wait to write may take over, in ms since the epoch; null as long as the transaction holds nothing up. */
  get expiresAt(): number | null {
    return this.#clock?.expiresAt ?? null
  }

  execute(
    statement: InStatement,
    args: InArgs | undefined,
    options: StatementOptions & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>>
  execute<Row = ObjectRow>(
    statement: InStatement,
    args?: InArgs,
    options?: StatementOptions,
  ): Promise<ResultSet<Row>>
  async execute(
    statement: InStatement,
    args?: InArgs,
    options: StatementOptions = {},
  ): Promise<Results[number]> {
    const encoded = encodeStatement(statement, args)
    const savepoint = this.#savepoints.follow(encoded.sql, this.#inTransaction)
    if (savepoint === 'begin') this.begin('deferred')
    const control = transactionControl(encoded.sql)
    if (control === 'begin') this.begin(encoded.sql)
    else if (control === 'commit' || savepoint === 'commit') await this.commit(options)
    else if (control === 'rollback') await this.rollback(options)
    else
      return (
        await this.#run([encoded], this.#inTransaction ? 'inside' : 'alone', options)
      )[0] as Results[number]
    return new ResultSet<ObjectRow>({ cols: [], rows: [], affected_row_count: 0 }, [])
  }

  batch(
    statements: readonly InStatement[],
    options: BatchOptions & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>[]>
  batch<Row = ObjectRow>(
    statements: readonly InStatement[],
    options?: BatchOptions,
  ): Promise<ResultSet<Row>[]>
  async batch(statements: readonly InStatement[], options: BatchOptions = {}): Promise<Results> {
    const encoded = encodeBatch(statements)
    return await this.#run(encoded, this.#inTransaction ? 'inside' : 'atomic', options)
  }

  /**
   * Runs statements outside a transaction in one request, each taking effect by itself; none after the first that fails.
   * @throws SqlError with `statementIndex` and the finished `results`, which stay
   */
  async chain(statements: readonly InStatement[], options: StatementOptions = {}): Promise<ResultSet[]> {
    if (this.#inTransaction) throw new TypeError('a transaction is open on this stream')
    return (await this.#run(encodeBatch(statements), 'chain', options)) as ResultSet[]
  }

  #run(
    statements: readonly EncodedStatement[],
    place: Entry['place'],
    options: BatchOptions,
  ): Promise<Results> {
    if (statements.length === 0) return Promise.resolve([])
    const { events } = this.#connection.http
    return events.query(statements, place === 'inside', () =>
      this.#enqueue(statements, place, options, place === 'inside'),
    )
  }

  /** Begins a transaction. Nothing is sent: BEGIN travels with the first statement. @param mode a mode, or a BEGIN statement */
  begin(mode?: TransactionMode | (string & {})): void {
    if (this.#inTransaction)
      throw new TypeError('a transaction is open on this stream already; use a savepoint')
    this.#checkOpen()
    this.#inTransaction = true
    const id = nextId()
    this.#id = id
    this.#clock = new TransactionClock(this.#connection.http.config.transactionTimeoutMs, {
      expire: () => this.#expire(),
      warn: (remainingMs) => this.#emit({ type: 'transaction:expiring', id, remainingMs }),
    })
    this.#emit({ type: 'transaction:begin', id })
    const isStatement = mode !== undefined && transactionControl(mode) !== null
    this.#queue.addLead(isStatement ? mode : beginStatement(mode as TransactionMode | undefined))
  }

  /** Commits. A transaction without statements sends nothing. @throws StreamError when the transaction was lost */
  async commit(options: CallOptions = {}): Promise<void> {
    if (!this.#inTransaction && this.isOpen) throw new TypeError('no transaction is open on this stream')
    this.#checkNoCursor()
    await this.#endTransaction(COMMIT, options)
    this.#emitEnd('transaction:commit')
  }

  /** Rolls back. Never rejects because the transaction is gone already. */
  async rollback(options: CallOptions = {}): Promise<void> {
    if (!this.#inTransaction) return
    this.#breakCursor?.()
    try {
      await this.#endTransaction(ROLLBACK, options)
      this.#emitEnd('transaction:rollback')
    } catch (error) {
      // lost, refused or cut off: in each case the server rolls back, at the latest when it drops the stream
      this.#lose('TRANSACTION_LOST', 'the rollback failed and the stream was given up', error)
    }
  }

  /** Marks a point in the transaction; travels with the next statement. */
  savepoint(name: string): void {
    if (!this.#inTransaction && this.isOpen) throw new TypeError('no transaction is open on this stream')
    this.#queue.savepoint(name)
  }

  /** Undoes what was done since a savepoint, which stays; travels with the next statement. */
  rollbackTo(name: string): void {
    if (this.#inTransaction) this.#queue.rollbackTo(name)
  }

  /** Forgets a savepoint and keeps what was done since; travels with the next statement. */
  release(name: string): void {
    if (this.#inTransaction) this.#queue.release(name)
  }

  /** Closes the stream, after what is queued; an open transaction is rolled back. Never rejects. */
  async close(): Promise<void> {
    this.#closing = true
    this.#breakCursor?.()
    for (const tell of this.#onEnd) tell()
    this.#clock?.pause()
    const closed = this.#pump()
    // nobody should wait for a server that did not answer before
    if (!this.#isBroken) await closed
    if (this.#inTransaction) this.#emitEnd('transaction:rollback')
  }

  /**
   * Waits for something else to end, such as a savepoint: as long as a call may take, and the stream is open.
   * @throws TransportError when the time is over; the signal's reason; StreamError
   */
  waitFor(event: Promise<unknown> | null, what: string, { signal, timeoutMs }: CallOptions): Promise<void> {
    const { requestTimeoutMs } = this.#connection.http.config
    const ms = timeoutMs ?? requestTimeoutMs
    return new Promise((resolve, reject) => {
      const end = (settle: () => void): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
        this.#onEnd.delete(over)
        settle()
      }
      const abort = (): void => end(() => reject(signal?.reason))
      const over = (): void => end(() => reject(this.#endError()))
      const late = (): void =>
        end(() =>
          reject(new TransportError('TIMEOUT', `${what} was not over within ${ms} ms`, 'not_applied')),
        )
      const timer = ms === Infinity ? undefined : setTimeout(late, ms)
      if (signal?.aborted) return abort()
      if (!this.isOpen) return over()
      signal?.addEventListener('abort', abort)
      this.#onEnd.add(over)
      void Promise.resolve(event).then(() => end(resolve))
    })
  }

  #endError(): StreamError {
    return this.#lost ?? new StreamError('STREAM_CLOSED', 'the stream is closed')
  }

  #checkOpen(): void {
    if (!this.isOpen) throw this.#endError()
  }

  /** A loop over rows that waits for what waits for the loop would wait for ever. */
  #checkNoCursor(): void {
    if (this.#breakCursor)
      throw new TypeError(
        'rows are being read on this stream: take them to the end, or leave the loop, first',
      )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #endTransaction(sql: string, options: CallOptions): Promise<void> {
    if (this.#closing) this.#checkOpen()
    const isEmpty = !this.#pumping && this.#queue.isToBegin
    if (isEmpty) this.#queue.dropLead()
    const ended = isEmpty ? null : this.#enqueue([encodeSql(sql)], 'inside', options, false)
    this.#inTransaction = false
    await ended
  }

  /** The COMMIT was refused, as by a deferred constraint: the transaction is still there, to be mended or rolled back. */
  #reopen(): void {
    this.#inTransaction = true
    this.#clock?.resume(false)
    // was to run behind it, on its own
    this.#queue.rejectAll(new StreamError('TRANSACTION_LOST', 'not run: the COMMIT before it was refused'))
  }

  #enqueue(
    statements: readonly EncodedStatement[],
    place: Entry['place'],
    options: BatchOptions,
    shares: boolean,
  ): Promise<Results> {
    return new Promise((resolve, reject) => {
      this.#checkOpen()
      this.#checkNoCursor()
      const { signal, timeoutMs } = options
      signal?.throwIfAborted()
      if (timeoutMs !== undefined) checkTimeout('timeoutMs', timeoutMs)
      const lead = place === 'atomic' ? [beginStatement(options.mode)] : []
      const entry: Entry = {
        statements,
        place,
        lead,
        shares,
        options,
        since: performance.now(),
        resolve,
        reject,
      }
      this.#queue.add(entry, this.#pumping !== null)
      void this.#pump()
    })
  }

  /** Tells the end of a transaction, once. */
  #emitEnd(type: 'transaction:commit' | 'transaction:rollback'): void {
    if (this.#id !== null) this.#emit({ type, id: this.#id })
    this.#id = null
  }

  /** Tells those who listen, if there are any. */
  #emit(event: ClientEvent): void {
    const { events } = this.#connection.http
    if (events.isWatched) events.emit(event)
  }

  static {
    borrowStream = (stream) => stream.#borrow()
  }

  /** Gives the stream to a cursor, until it gives it back or the stream is ended. */
  async #borrow(): Promise<Borrowed> {
    this.#checkNoCursor()
    // BEGIN and savepoints that still wait for a statement
    if (this.#queue.hasLead) await this.#enqueue([encodeSql('select 1')], 'inside', {}, true)
    while (this.#pumping) await this.#pumping
    this.#checkOpen()
    this.#checkNoCursor()
    this.#clock?.pause()
    const broken = new AbortController()
    let done = (): void => {}
    this.#pumping = new Promise((resolve) => {
      done = resolve
    })
    const giveBack = (): void => {
      if (this.#breakCursor !== breakCursor) return
      this.#breakCursor = null
      this.#pumping = null
      done()
      if (this.#inTransaction && this.isOpen) this.#clock?.resume(false)
      if (this.#queue.length > 0 || this.#closing) void this.#pump()
    }
    const breakCursor = (): void => {
      giveBack()
      broken.abort(this.#endError())
    }
    this.#breakCursor = breakCursor
    return {
      connection: this.#connection,
      inTransaction: this.#inTransaction,
      signal: broken.signal,
      lose: this.#lose,
      fail: (error) => {
        // an error of the statement itself leaves the stream as it was
        const isMine = this.#breakCursor === breakCursor
        if (isMine && !(error instanceof SqlError) && !this.#lost) this.#fail([], error)
      },
      giveBack,
    }
  }

  #pump(): Promise<void> {
    this.#pumping ??= this.#drain()
    return this.#pumping
  }

  async #drain(): Promise<void> {
    // what is issued in the same tick leaves together
    await Promise.resolve()
    for (let done = false; !done; ) {
      const entries = this.#queue.take(this.#connection.isV3 ? Infinity : V2_ENTRIES)
      const close = this.#closing && this.#queue.length === 0
      if (this.#lost) for (const entry of entries.splice(0)) entry.reject(this.#lost)
      const isBareClose = close && entries.length === 0
      if (entries.length > 0 || (close && this.#connection.baton)) await this.#exchange(entries, close)
      // answered or not: nobody will ask for it again
      if (isBareClose) this.#connection.baton = null
      // where closing went wrong together with something else, it is tried once more by itself
      done = this.#queue.length === 0 && (!this.#closing || isBareClose || (close && !this.#connection.baton))
    }
    this.#pumping = null
  }

  async #exchange(entries: readonly Entry[], close: boolean): Promise<void> {
    // to close is to roll back
    const isRollback = close && isEndOf(entries[0], ROLLBACK)
    this.#clock?.pause()
    const request = isRollback || entries.length === 0 ? null : new SqlRequest(entries)
    try {
      const answer = await this.#connection.send(request, close)
      if (request === null) for (const entry of entries) entry.resolve([])
      else this.#settle(request, answer)
      if (!this.#connection.baton && !close && this.#inTransaction)
        throw new ProtocolError('no baton in the middle of a transaction')
    } catch (error) {
      this.#fail(entries, error)
    }
  }

  #settle(request: SqlRequest, answer: WireStreamResult | undefined): void {
    const { again, lead, isDone } = request.settle(answer, this.#connection.http.config.intMode, this.#lose)
    if (again) this.#queue.putBack(again)
    if (lead) this.#queue.passLead(lead)
    const isCommit = isEndOf(request.entries[0], COMMIT)
    if (isCommit && !isDone && !this.#lost) this.#reopen()
    if (this.#inTransaction && !this.#closing) this.#clock?.resume(!again && !lead && request.writes)
  }

  /** Closes a transaction that is idle when its time is over, so that others can write. */
  #expire(): void {
    if (this.#pumping) return
    const { transactionTimeoutMs } = this.#connection.http.config
    this.#lose(
      'TRANSACTION_EXPIRED',
      `idle when its ${transactionTimeoutMs} ms were over, the transaction was closed`,
    )
    void this.close()
  }

  /** The request got no usable answer: the stream is gone, and the transaction with it. */
  #fail(entries: readonly Entry[], error: unknown): void {
    const isHttp = error instanceof HttpError
    const isExpired = isHttp && error.serverCode === 'STREAM_EXPIRED'
    const isRefused = isHttp && this.#connection.baton && (error.status === 400 || error.status === 404)
    const inTransaction = entries.some((entry) => entry.place === 'inside') || this.#inTransaction
    // a baton that the server has not refused may still close the stream, and free the write slot
    if (isRefused) this.#connection.baton = null
    this.#isBroken = !isRefused
    this.#lose(
      inTransaction ? (isExpired ? 'TRANSACTION_EXPIRED' : 'TRANSACTION_LOST') : 'STREAM_EXPIRED',
      isExpired
        ? `the server closed the stream after ${STREAM_IDLE_MS / 1000} s without a request`
        : `the stream broke off: ${String(error)}`,
      error,
    )
    const isKnown = error instanceof DatabaseError && error.outcome === 'not_applied'
    for (const entry of entries) {
      const { signal } = entry.options
      // without a COMMIT nothing was kept, whatever the request did; a lost COMMIT is for the caller to look after
      const isLoss = isRefused || (entry.place === 'inside' && !isKnown && !isEndOf(entry, COMMIT))
      if (signal?.aborted && error === signal.reason) entry.reject(error)
      else entry.reject(isLoss ? this.#lost : error)
    }
  }

  readonly #lose: Lose = (code, message, cause) => {
    if (this.#lost) return this.#lost
    this.#lost = new StreamError(code, message, cause, this.#clock?.elapsedMs, this.#connection.lastSql)
    if (this.#id !== null) this.#emit({ type: 'transaction:lost', id: this.#id, error: this.#lost })
    this.#id = null
    this.#clock?.pause()
    this.#inTransaction = false
    this.#queue.dropLead()
    for (const tell of this.#onEnd) tell()
    return this.#lost
  }
}

/** Entries in one request where each carries the conditions of all before it. */
const V2_ENTRIES = 32
const COMMIT = 'COMMIT'
const ROLLBACK = 'ROLLBACK'
const isEndOf = (entry: Entry | undefined, end: string): boolean =>
  entry?.place === 'inside' && entry.statements[0]?.sql === end
