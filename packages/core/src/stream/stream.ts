import { beginStatement, type TransactionMode } from '../codec/batch.ts'
import { InsertedRowids } from '../codec/inserted-rowids.ts'
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
import { ProtocolError, SqlError, StreamError, TransportError } from '../errors.ts'
import type { Deadline } from '../http/deadline.ts'
import { Waiter } from '../http/waiter.ts'
import { quote } from '../http/write-lock.ts'
import type { BatchOptions, CallOptions, Executor, StatementOptions } from '../options.ts'
import { callError, classifyFailure } from './classify-failure.ts'
import type { QueuedCall, Results } from './queued-call.ts'
import { RawSavepoints } from './raw-savepoints.ts'
import { RequestPump } from './request-pump.ts'
import { type MarkLost, SqlRequest, takesLock } from './sql-request.ts'
import { StatementQueue } from './statement-queue.ts'
import type { StreamConnection } from './stream-connection.ts'
import { StreamTransaction } from './stream-transaction.ts'

/** A stream in the hands of a cursor. */
export interface Borrowed {
  readonly connection: StreamConnection
  readonly inTransaction: boolean
  /** Whether the stream has the write lock. */
  readonly holdsLock: boolean
  /** Aborted when the stream is ended under the cursor's hands. */
  readonly signal: AbortSignal
  readonly markLost: MarkLost
  fail(error: unknown): void
  giveBack(): void
}

/** Statements of a handle of a transaction, encoded when the call was made. */
export interface HandleCall {
  readonly statements: readonly EncodedStatement[]
  readonly options: StatementOptions
  readonly deadline: Deadline
  /** Why it must not run any more. */
  readonly refusal: () => Error | null
}

/** What the handles of a transaction, and cursors, do with a stream that nobody else does. */
interface Internals {
  readonly connection: StreamConnection
  readonly transaction: StreamTransaction | null
  run(call: HandleCall): Promise<Results>
  /** Waits for something else to end, such as a savepoint. @throws TransportError; the signal's reason; StreamError */
  waitFor(event: Promise<unknown>, what: string, deadline: Deadline, signal?: AbortSignal): Promise<void>
  borrow(options: BorrowOptions): Promise<Borrowed>
  /** Takes the stream out of a cursor's hands. @returns whether its owner had it */
  breakCursor(owner: object): boolean
  /** Settles when no request is under way. */
  idle(): Promise<unknown>
}

interface BorrowOptions {
  /** The handle whose rows are read. */
  readonly owner: object
  readonly deadline: Deadline
  readonly signal: AbortSignal | undefined
}

export let internals: (stream: Stream) => Internals

/**
 * A connection held by the server from request to request. Statements given while a request is under way leave together
 * with the next one. The server closes a stream after 10 s without a request, and a transaction on it may lose the
 * write lock after 5 s; what comes after rejects with a StreamError.
 *
 * For adapters; applications want `client.transaction()`.
 */
export class Stream implements Executor, AsyncDisposable {
  readonly #connection: StreamConnection
  readonly #queue: StatementQueue
  readonly #pump: RequestPump
  readonly #savepoints = new RawSavepoints()
  readonly #rowids = new InsertedRowids()
  /** `closing`: what is queued still runs. An error: it is lost, and so is what was queued. */
  #life: 'open' | 'closing' | StreamError = 'open'
  #transaction: StreamTransaction | null = null
  /** Who has the stream to read rows, and what takes it out of their hands. */
  #cursor: { readonly owner: object; stop(): void } | null = null
  /** Calls that wait for something else than a request, to be told when nothing more can be run. */
  readonly #waits = new Set<Waiter>()
  readonly #internals: Internals

  constructor(connection: StreamConnection) {
    this.#connection = connection
    this.#queue = new StatementQueue(connection.http)
    const stream = this
    this.#pump = new RequestPump(this.#queue, connection, {
      get isClosing() {
        return stream.#life !== 'open'
      },
      get isBlocked() {
        return stream.#needsTurn
      },
      send: (calls, close) => this.#send(calls, close),
      closed: () => this.#closed(),
    })
    this.#internals = {
      connection,
      get transaction() {
        return stream.#current
      },
      run: (call) => this.#run(call.statements, 'atomic', call.options, call),
      waitFor: (...wait) => this.#waitFor(...wait),
      borrow: (options) => this.#borrow(options),
      breakCursor: (owner) => {
        const isIts = this.#cursor?.owner === owner
        if (isIts) this.#cursor?.stop()
        return isIts
      },
      idle: async () => await this.#pump.busy,
    }
    connection.abandon = async () => {
      this.#markLost(this.#transaction ? 'TRANSACTION_LOST' : 'STREAM_CLOSED', 'the client was closed')
      await this.#pump.run()
    }
  }

  /** Whether a transaction was begun and not ended, as far as the client knows. */
  get inTransaction(): boolean {
    return this.#current?.ending === null
  }

  /** Whether statements can still be run: neither closed nor lost. */
  get isOpen(): boolean {
    return this.#life === 'open'
  }

  /** When others that wait to write may take over, in ms since the epoch; null as long as no transaction holds them up. */
  get expiresAt(): number | null {
    return this.#current?.clock.expiresAt ?? null
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
    const savepoint = this.#savepoints.follow(encoded.sql, this.inTransaction)
    if (savepoint === 'begin') this.begin('deferred')
    const control = transactionControl(encoded.sql)
    if (control === 'begin') this.begin(encoded.sql)
    else if (control === 'commit' || savepoint === 'commit') await this.commit(options)
    else if (control === 'rollback') await this.rollback(options)
    else return (await this.#run([encoded], 'alone', options))[0] as Results[number]
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
    return await this.#run(encodeBatch(statements), 'atomic', options)
  }

  /**
   * Runs statements outside a transaction in one request, each taking effect by itself; none after the first that fails.
   * @throws SqlError with `statementIndex` and the finished `results`, which stay
   */
  async chain(statements: readonly InStatement[], options: StatementOptions = {}): Promise<ResultSet[]> {
    if (this.inTransaction) throw new TypeError('a transaction is open on this stream')
    return (await this.#run(encodeBatch(statements), 'chain', options)) as ResultSet[]
  }

  #run(
    statements: readonly EncodedStatement[],
    outside: QueuedCall['scope'],
    options: BatchOptions,
    handle?: HandleCall,
  ): Promise<Results> {
    if (statements.length === 0) return Promise.resolve([])
    const { inTransaction } = this
    const scope = inTransaction ? 'inside' : outside
    const prefix = scope === 'atomic' ? [beginStatement(options.mode)] : []
    return this.#connection.http.events.query(statements, inTransaction, () =>
      this.#enqueue({ statements, scope, prefix, canCoalesce: inTransaction, options, ...handle }),
    )
  }

  /** Begins a transaction. Nothing is sent: BEGIN travels with the first statement. @param mode a mode, or a BEGIN statement */
  begin(mode?: TransactionMode | (string & {})): void {
    this.#checkOpen()
    if (this.#transaction)
      throw new TypeError(
        this.inTransaction
          ? 'a transaction is open on this stream already; use a savepoint'
          : 'the transaction before is not over yet: await its commit() or rollback()',
      )
    const transaction = new StreamTransaction(this.#connection, () => this.#expire(transaction))
    this.#transaction = transaction
    const isStatement = mode !== undefined && transactionControl(mode) !== null
    this.#queue.addPrefix(isStatement ? mode : beginStatement(mode as TransactionMode | undefined))
  }

  /** Commits. A transaction without statements sends nothing. @throws StreamError when the transaction was lost */
  async commit(options: CallOptions = {}): Promise<void> {
    const transaction = this.#current
    if (!this.inTransaction && this.isOpen) throw new TypeError('no transaction is open on this stream')
    this.#checkNoCursor()
    this.#checkOpen()
    if (transaction) await this.#end(transaction, 'commit', options)
  }

  /** Rolls back. Never rejects because the transaction is gone already. */
  async rollback(options: CallOptions = {}): Promise<void> {
    const transaction = this.#current
    // a COMMIT may be refused
    if (transaction?.ending) await transaction.ending.catch(() => {})
    if (!transaction || transaction !== this.#current) return
    this.#cursor?.stop()
    try {
      await this.#end(transaction, 'rollback', options)
    } catch (error) {
      // lost, refused or cut off: in each case the server rolls back, at the latest when it drops the stream
      this.#markLost('TRANSACTION_LOST', 'the rollback failed and the stream was given up', error)
    }
  }

  /** Marks a point in the transaction; travels with the next statement. */
  savepoint(name: string): void {
    if (!this.inTransaction && this.isOpen) throw new TypeError('no transaction is open on this stream')
    this.#queue.savepoint(name)
  }

  /** Undoes what was done since a savepoint, which stays; travels with the next statement. */
  rollbackTo(name: string): void {
    if (this.inTransaction) this.#queue.rollbackTo(name)
  }

  /** Forgets a savepoint and keeps what was done since; travels with the next statement. */
  release(name: string): void {
    if (this.inTransaction) this.#queue.release(name)
  }

  /** Closes the stream, after what is queued; an open transaction is rolled back. Never rejects. */
  async close(): Promise<void> {
    if (this.#life === 'open') this.#life = 'closing'
    this.#cursor?.stop()
    this.#endWaits()
    this.#transaction?.clock.pause()
    const closed = this.#start()
    // nobody should wait for a server that did not answer before
    if (!this.#connection.isBroken) await closed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #checkOpen(): void {
    if (!this.isOpen) throw this.#endError()
  }

  #endError(): StreamError {
    return typeof this.#life === 'string'
      ? new StreamError('STREAM_CLOSED', 'the stream is closed')
      : this.#life
  }

  #endWaits(): void {
    for (const waiter of this.#waits) waiter.reject(this.#endError())
  }

  /** Prevents a deadlock: the loop over the rows would await a statement that is queued behind it. */
  #checkNoCursor(): void {
    if (this.#cursor)
      throw new TypeError(
        'rows are being read on this stream: take them to the end, or leave the loop, first',
      )
  }

  async #end(
    transaction: StreamTransaction,
    ends: 'commit' | 'rollback',
    options: CallOptions,
  ): Promise<void> {
    this.#checkOpen()
    options.signal?.throwIfAborted()
    const deadline = this.#connection.http.deadline(options.timeoutMs)
    // the server knows nothing of it yet
    if (this.#queue.isToBegin) {
      this.#queue.dropPrefix()
      this.#over(transaction, ends)
      return
    }
    transaction.ending = this.#enqueue({
      statements: [encodeSql(ends.toUpperCase())],
      scope: 'inside',
      ends,
      prefix: [],
      canCoalesce: false,
      options,
      deadline,
    })
    await transaction.ending
  }

  /** A transaction is over on the server. */
  #over(transaction: StreamTransaction, ends: 'commit' | 'rollback'): void {
    transaction.end(`transaction:${ends}`)
    transaction.endTurn()
    if (this.#transaction === transaction) this.#transaction = null
  }

  /** The COMMIT was refused, as by a deferred constraint, or never left: the transaction is still there, to be mended or rolled back. */
  #reopen(transaction: StreamTransaction): void {
    if (this.#current !== transaction) return
    transaction.ending = null
    if (this.#life === 'open') transaction.clock.resume(false)
    // was to run behind it, on its own
    this.#queue.rejectAll(
      new StreamError('TRANSACTION_LOST', 'not run: the COMMIT before it was not carried out'),
    )
  }

  async #enqueue(
    call: Omit<QueuedCall, 'resolve' | 'reject' | 'deadline'> & { readonly deadline?: Deadline },
  ): Promise<Results> {
    this.#checkOpen()
    this.#checkNoCursor()
    const { ends, options } = call
    options.signal?.throwIfAborted()
    const deadline = call.deadline ?? this.#connection.http.deadline(options.timeoutMs)
    const transaction = this.#current
    return await new Promise((resolve, reject) => {
      this.#queue.add({
        ...call,
        deadline,
        options: { ...options },
        resolve: (results) => {
          if (transaction && ends) this.#over(transaction, ends)
          resolve(results)
        },
        reject: (error) => {
          if (transaction && ends) this.#reopen(transaction)
          reject(error)
        },
      })
      void this.#start()
    })
  }

  /** Whether the call at the head of the queue begins a transaction that writes, whose turn has not come. */
  get #needsTurn(): boolean {
    const { head } = this.#queue
    const transaction = this.#transaction
    return (
      transaction !== null &&
      !transaction.hasTurn &&
      head?.scope === 'inside' &&
      transactionControl(head.prefix[0] ?? '') === 'begin' &&
      takesLock(head)
    )
  }

  /** Sends what is queued, as soon as it may. Settles when that is done. */
  async #start(): Promise<void> {
    const transaction = this.#transaction
    if (transaction && this.#needsTurn) await (transaction.turn ??= this.#takeTurn(transaction))
    await this.#pump.run()
    // begun while the pump was still at work for what came before
    if (this.#needsTurn) await this.#start()
  }

  async #takeTurn(transaction: StreamTransaction): Promise<void> {
    this.#queue.hold()
    try {
      await transaction.takeTurn(this.#queue.head?.statements[0]?.sql ?? '')
      // all that waited may have gone
      if (!this.#needsTurn && this.#queue.length === 0) transaction.endTurn()
    } catch (error) {
      transaction.endTurn()
      this.#queue.rejectAll(error)
    } finally {
      this.#queue.letGo()
    }
  }

  async #send(calls: readonly QueuedCall[], close: boolean): Promise<void> {
    const connection = this.#connection
    const { http } = connection
    const transaction = this.#transaction
    // to close is to roll back
    if (close && calls[0]?.ends === 'rollback') {
      await connection.end()
      for (const call of calls) call.resolve([])
      return
    }
    const request = new SqlRequest(calls)
    const writes = request.writes
    const started = http.clock.now()
    const continuesStream = connection.baton !== null
    transaction?.clock.pause()
    try {
      const answer = await connection.send(request, close, writes || transaction?.holdsLock === true)
      this.#settle(request, answer, writes)
      if (!connection.baton && !close && this.#transaction)
        throw new ProtocolError('no baton in the middle of a transaction')
    } catch (error) {
      if (connection.isSent) this.#fail(calls, error, { continuesStream, started })
      else this.#notSent(calls, error)
    }
  }

  #settle(request: SqlRequest, answer: Parameters<SqlRequest['settle']>[0], writes: boolean): void {
    const { intMode } = this.#connection.http.config
    const { again, prefix } = request.settle(answer, {
      intMode,
      rowids: this.#rowids,
      markLost: this.#markLost,
    })
    if (again) this.#queue.putBack(again)
    if (prefix) this.#queue.passPrefix(prefix)
    if (this.#life === 'open') this.#transaction?.answered(!again && !prefix && writes)
  }

  /** The request never left: those of its calls that are to blame go, and the stream is as it was. */
  #notSent(calls: readonly QueuedCall[], error: unknown): void {
    const transaction = this.#current
    if (!this.#connection.baton) transaction?.endTurn()
    else if (this.#life === 'open') transaction?.clock.resume(false)
    this.#queue.putBack(calls)
    const over = calls.filter(({ options, deadline }) => options.signal?.aborted || deadline.leftMs <= 0)
    for (const call of over.length > 0 ? over : calls)
      this.#queue.remove(call, call.options.signal?.aborted ? call.options.signal.reason : error)
  }

  /** The request got no usable answer: the stream is gone, and the transaction with it. */
  #fail(
    calls: readonly QueuedCall[],
    error: unknown,
    { continuesStream = true, started = 0 }: { continuesStream?: boolean; started?: number } = {},
  ): void {
    const connection = this.#connection
    const failed = {
      error,
      continuesStream,
      durationMs: connection.http.clock.now() - started,
      inTransaction: calls.some(({ scope }) => scope === 'inside') || this.#current !== null,
      commits: calls[0]?.ends === 'commit',
    }
    const failure = classifyFailure(failed)
    // a baton that the server has not refused may still close the stream, and free the write lock
    if (failure.isUnknownStream) connection.baton = null
    connection.isBroken = !failure.isUnknownStream
    const lost = this.#markLost(failure.code, failure.message, error)
    for (const call of calls) {
      const { signal } = call.options
      const isGivenUp = signal?.aborted === true && error === signal.reason
      const isRead = new SqlRequest([call]).isRead
      const known = { scope: call.scope, commits: call.ends === 'commit', isRead, isGivenUp }
      call.reject(callError(known, failed, failure, lost))
    }
  }

  /** Closes a transaction that is idle when its time is over, so that others can write. */
  #expire(transaction: StreamTransaction): void {
    if (this.#pump.busy || this.#current !== transaction) return
    const { config, writeLock } = this.#connection.http
    const other = writeLock.wantedBy
    const hint =
      other &&
      `, while another call of this client waited for the write lock: ${quote(other)}. Inside the callback use the transaction's own handle`
    this.#markLost(
      'TRANSACTION_EXPIRED',
      `idle when its ${config.transactionTimeoutMs} ms were over, the transaction was closed${hint ?? ''}`,
    )
  }

  readonly #markLost: MarkLost = (code, message, cause) => {
    if (typeof this.#life !== 'string') return this.#life
    const transaction = this.#current
    const lost = new StreamError(code, message, cause, transaction?.clock.elapsedMs, this.#connection.lastSql)
    this.#life = lost
    transaction?.end('transaction:lost', lost)
    this.#queue.rejectAll(lost)
    this.#queue.dropPrefix()
    this.#endWaits()
    this.#cursor?.stop()
    void this.#pump.run()
    return lost
  }

  /** The stream is closed, as far as it can be. */
  #closed(): void {
    this.#transaction?.end('transaction:rollback')
    this.#transaction?.endTurn()
    this.#transaction = null
  }

  /** The transaction that was begun and is not over, as far as the client knows. */
  get #current(): StreamTransaction | null {
    return typeof this.#life === 'string' ? this.#transaction : null
  }

  static {
    internals = (stream) => stream.#internals
  }

  async #waitFor(
    event: Promise<unknown>,
    what: string,
    { leftMs, timeoutMs }: Deadline,
    signal?: AbortSignal,
  ): Promise<void> {
    signal?.throwIfAborted()
    this.#checkOpen()
    const late = (): Error =>
      new TransportError('TIMEOUT', `${what} was not over within ${timeoutMs} ms`, 'not_applied')
    const onEnd = (): unknown => this.#waits.delete(waiter)
    const waiter: Waiter = new Waiter(this.#connection.http.clock, {
      ms: leftMs,
      signal,
      late,
      onEnd: () => void onEnd(),
    })
    this.#waits.add(waiter)
    void event.then(() => waiter.resolve())
    await waiter.promise
  }

  /** Gives the stream to a cursor, until it gives it back or the stream is ended. */
  async #borrow({ owner, deadline, signal }: BorrowOptions): Promise<Borrowed> {
    this.#checkOpen()
    this.#checkNoCursor()
    // BEGIN and savepoints that still wait for a statement
    if (this.#queue.hasPrefix) {
      const options = { signal, timeoutMs: deadline.timeoutMs }
      await this.#run([encodeSql('select 1')], 'alone', options)
    }
    while (this.#pump.busy) await this.#waitFor(this.#pump.busy, 'the request before', deadline, signal)
    this.#checkOpen()
    this.#checkNoCursor()
    const transaction = this.#current
    transaction?.clock.pause()
    const broken = new AbortController()
    const release = this.#pump.lend()
    const giveBack = (): void => {
      if (this.#cursor !== cursor) return
      this.#cursor = null
      if (this.isOpen) transaction?.clock.resume(false)
      release()
    }
    const cursor = {
      owner,
      stop: () => {
        giveBack()
        broken.abort(this.#endError())
      },
    }
    this.#cursor = cursor
    return {
      connection: this.#connection,
      inTransaction: transaction !== null,
      holdsLock: transaction?.holdsLock ?? false,
      signal: broken.signal,
      markLost: this.#markLost,
      fail: (error) => {
        // an error of the statement itself leaves the stream as it was
        const isMine = this.#cursor === cursor
        if (isMine && !(error instanceof SqlError)) this.#fail([], error)
      },
      giveBack,
    }
  }
}
