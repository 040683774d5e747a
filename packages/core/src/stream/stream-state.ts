import { atCaller } from '../at-caller.ts'
import { beginStatement, type TransactionMode } from '../codec/batch.ts'
import { type EncodedStatement, encodeSql, transactionControl } from '../codec/statement.ts'
import { StreamError, TransportError } from '../errors.ts'
import type { Deadline } from '../http/deadline.ts'
import { Waiter } from '../http/waiter.ts'
import type { BatchOptions, CallOptions } from '../options.ts'
import { quoteSql } from '../quote-sql.ts'
import type { QueuedCall, Results } from './queued-call.ts'
import { type PumpHost, RequestPump } from './request-pump.ts'
import { batchMode, type MarkLost, takesLock } from './sql-request.ts'
import { StatementQueue } from './statement-queue.ts'
import type { StreamConnection } from './stream-connection.ts'
import { StreamTransaction } from './stream-transaction.ts'

/** What a handle of a transaction adds to its call. */
export type HandleCall = Pick<QueuedCall, 'deadline' | 'refusal'>

type ReadCall = Pick<QueuedCall, 'statements' | 'options' | 'deadline' | 'refusal' | 'owner'>

/** What a stream is: its life, its transaction, what is queued, and what answers and failures mean for them. */
export class StreamState implements PumpHost {
  readonly connection: StreamConnection
  readonly queue: StatementQueue
  readonly pump: RequestPump
  /** `closing`: what is queued still runs. An error: it is lost, and so is what was queued. */
  #life: 'open' | 'closing' | StreamError = 'open'
  #transaction: StreamTransaction | null = null
  /** The reading of rows that has the stream, and what ends it. */
  cursor: { readonly owner: object; readonly isStopped: boolean; stop(): void } | null = null
  /** Calls that wait for something else than a request, to be rejected when nothing more can be run. */
  readonly #waits = new Set<Waiter>()

  constructor(connection: StreamConnection) {
    this.connection = connection
    this.queue = new StatementQueue(connection.http)
    this.pump = new RequestPump(this)
    connection.abandon = async () => {
      this.markLost(this.#transaction ? 'TRANSACTION_LOST' : 'STREAM_CLOSED', 'the client was closed')
      await this.pump.run()
    }
  }

  /** Whether a transaction was begun and not ended, as far as the client knows. */
  get inTransaction(): boolean {
    return this.current?.ending === null
  }

  /** Whether statements can still be run: neither closed nor lost. */
  get isOpen(): boolean {
    return this.#life === 'open'
  }

  /** When others that wait to write may take over, in ms since the epoch; null as long as no transaction holds them up. */
  get expiresAt(): number | null {
    return this.current?.clock.expiresAt ?? null
  }

  run(
    statements: readonly EncodedStatement[],
    outside: QueuedCall['scope'],
    options: BatchOptions,
    handle?: HandleCall,
  ): Promise<Results> {
    if (statements.length === 0) return Promise.resolve([])
    const { inTransaction, current } = this
    const transaction = inTransaction && current ? current.id : null
    const scope = inTransaction ? 'inside' : outside
    const prefix = scope === 'atomic' ? [beginStatement(batchMode(statements, options))] : []
    return this.connection.http.events.query(statements, transaction, () =>
      this.#enqueue({ statements, scope, prefix, canCoalesce: inTransaction, options, ...handle }),
    )
  }

  /** Begins a transaction. Nothing is sent: BEGIN travels with the first statement. @param mode a mode, or a BEGIN statement */
  begin(mode?: TransactionMode | (string & {})): void {
    this.checkOpen()
    if (this.#transaction)
      throw new TypeError(
        this.inTransaction
          ? 'a transaction is open on this stream; use a savepoint'
          : 'the transaction before is not over yet',
      )
    const transaction = new StreamTransaction(this.connection, () => this.#expire(transaction))
    this.#transaction = transaction
    const isStatement = mode !== undefined && transactionControl(mode) !== null
    this.queue.addPrefix(isStatement ? mode : beginStatement(mode as TransactionMode | undefined))
  }

  /** Commits. A transaction without statements sends nothing. @throws StreamError when the transaction was lost */
  async commit(options: CallOptions = {}): Promise<void> {
    const transaction = this.current
    if (!this.inTransaction && this.isOpen) throw new TypeError('no transaction is open on this stream')
    this.checkNoCursor()
    this.checkOpen()
    if (transaction) await this.#end(transaction, 'commit', options)
  }

  /** Rolls back. Never rejects because the transaction is gone already. */
  async rollback(options: CallOptions = {}): Promise<void> {
    const transaction = this.current
    // a COMMIT may be refused
    if (transaction?.ending) await transaction.ending.catch(() => {})
    if (!transaction || transaction !== this.current) return
    this.#stopCursors(new StreamError('STREAM_CLOSED', 'the transaction was rolled back'))
    try {
      await this.#end(transaction, 'rollback', options)
    } catch (error) {
      // lost, refused or cut off: in each case the server rolls back, at the latest when it drops the stream
      this.markLost('TRANSACTION_LOST', 'the rollback failed and the stream was given up', error)
    }
  }

  /** Marks a point in the transaction; travels with the next statement. */
  savepoint(name: string): void {
    if (!this.inTransaction && this.isOpen) throw new TypeError('no transaction is open on this stream')
    this.queue.savepoint(name)
  }

  /** Undoes what was done since a savepoint, which stays; travels with the next statement. */
  rollbackTo(name: string): void {
    if (this.inTransaction) this.queue.rollbackTo(name)
  }

  /** Forgets a savepoint and keeps what was done since; travels with the next statement. */
  release(name: string): void {
    if (this.inTransaction) this.queue.release(name)
  }

  /** Closes the stream, after what is queued; an open transaction is rolled back. Never rejects. */
  async close(): Promise<void> {
    if (this.#life === 'open') this.#life = 'closing'
    this.#stopCursors(this.endError())
    this.#endWaits()
    this.#transaction?.clock.stop()
    const closed = this.#start()
    // nobody should wait for a server that did not answer before
    if (!this.connection.isBroken) await closed
  }

  checkOpen(): void {
    if (!this.isOpen) throw this.endError()
  }

  endError(): StreamError {
    return typeof this.#life === 'string'
      ? new StreamError('STREAM_CLOSED', 'the stream is closed')
      : this.#life
  }

  #stopCursors(error: StreamError): void {
    this.cursor?.stop()
    this.queue.rejectCursors(error)
  }

  #endWaits(): void {
    for (const waiter of this.#waits) waiter.reject(this.endError())
  }

  /** Prevents a deadlock: the loop over the rows would await a statement that is queued behind it. */
  checkNoCursor(): void {
    if (this.cursor?.isStopped === false)
      throw new TypeError('rows are being read on this stream: leave the loop first')
  }

  async #end(
    transaction: StreamTransaction,
    ends: 'commit' | 'rollback',
    options: CallOptions,
  ): Promise<void> {
    this.checkOpen()
    options.signal?.throwIfAborted()
    const deadline = this.connection.http.deadline(options.timeoutMs)
    // the server knows nothing of it yet
    if (this.queue.isToBegin) {
      this.queue.dropPrefix()
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
    try {
      await transaction.ending
    } catch (error) {
      throw atCaller(error, [{ sql: ends }])
    }
  }

  /** A transaction is over on the server. */
  #over(transaction: StreamTransaction, ends: 'commit' | 'rollback'): void {
    transaction.end(`transaction:${ends}`)
    transaction.endTurn()
    if (this.#transaction === transaction) this.#transaction = null
  }

  /** The COMMIT was refused, as by a deferred constraint, or never left: the transaction is still there, to be mended or rolled back. */
  #reopen(transaction: StreamTransaction): void {
    if (this.current !== transaction) return
    transaction.ending = null
    if (this.#life === 'open') transaction.clock.resume(false)
    // was to run behind it, on its own
    this.queue.rejectAll(new StreamError('TRANSACTION_LOST', 'not run: the COMMIT before it failed'))
  }

  /**
   * Queues the reading of rows, which then has the stream to itself.
   * @param lend called when it is its turn; calls `giveBack` when it is done @returns what `lend` returns
   */
  read<T>(call: ReadCall, lend: (call: QueuedCall, giveBack: () => void) => Promise<T>): Promise<T> {
    const scope = this.inTransaction ? 'inside' : 'alone'
    return this.#enqueue({ ...call, scope, prefix: [], canCoalesce: false }, lend)
  }

  async #enqueue<T = Results>(
    call: Omit<QueuedCall, 'resolve' | 'reject' | 'deadline' | 'lend'> & { readonly deadline?: Deadline },
    lend?: (call: QueuedCall, giveBack: () => void) => Promise<T>,
  ): Promise<T> {
    this.checkOpen()
    this.checkNoCursor()
    const { ends, options } = call
    options.signal?.throwIfAborted()
    const deadline = call.deadline ?? this.connection.http.deadline(options.timeoutMs)
    const transaction = this.current
    return await new Promise((resolve, reject) => {
      const queued: QueuedCall = {
        ...call,
        deadline,
        options: { ...options },
        lend: lend && ((giveBack) => resolve(lend(queued, giveBack))),
        resolve: (results) => {
          if (transaction && ends) this.#over(transaction, ends)
          resolve(results as T)
        },
        reject: (error) => {
          if (transaction && ends) this.#reopen(transaction)
          this.#yieldTurn()
          reject(error)
        },
      }
      this.queue.add(queued)
      void this.#start()
      // the request that leaves in this tick has a watch of its own
      if (this.pump.isSending || this.queue.isHeld) this.queue.watch(queued)
    })
  }

  /** Control statements of a request of which nothing ran: they travel with the next call. */
  passPrefix(prefix: readonly string[]): void {
    this.queue.passPrefix(prefix)
    this.#yieldTurn()
  }

  /** Lets another write when the server knows nothing of the transaction and no call waits to begin it. */
  #yieldTurn(): void {
    const transaction = this.#transaction
    if (transaction?.hasTurn && this.queue.isToBegin) transaction.endTurn()
  }

  /** Whether the call at the head of the queue begins a transaction that writes, whose turn has not come. */
  get isBlocked(): boolean {
    const { head } = this.queue
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
    if (transaction && this.isBlocked) await (transaction.turn ??= this.#takeTurn(transaction))
    await this.pump.run()
    // begun while the pump was still at work for what came before
    if (this.isBlocked) await this.#start()
  }

  async #takeTurn(transaction: StreamTransaction): Promise<void> {
    this.queue.hold()
    try {
      await transaction.takeTurn(this.queue.head?.statements[0]?.sql ?? '')
      // all that waited may have gone, and the transaction with it
      if (this.current !== transaction || this.queue.length === 0) transaction.endTurn()
    } catch (error) {
      transaction.endTurn()
      // those of another that was begun meanwhile have a turn of their own
      if (this.#transaction === transaction) this.queue.rejectAll(error)
    } finally {
      if (!this.#transaction?.isWaiting) this.queue.letGo(this.pump.isSending)
    }
  }

  /** Closes a transaction that is idle when its time is over, so that others can write. */
  #expire(transaction: StreamTransaction): void {
    if (this.pump.busy || this.current !== transaction) return
    const { config, writeLock } = this.connection.http
    const other = writeLock.wantedBy
    const hint = `; another call of this client waited for the write lock: ${quoteSql(other)}. If the transaction's callback awaits that call, make it with the transaction's own handle`
    this.markLost(
      'TRANSACTION_EXPIRED',
      `idle when its ${config.transactionTimeoutMs} ms were over${other ? hint : ''}`,
    )
  }

  readonly markLost: MarkLost = (code, message, cause) => {
    if (typeof this.#life !== 'string') return this.#life
    const transaction = this.current
    const lost = new StreamError(code, message, cause, transaction?.clock.elapsedMs, this.connection.lastSql)
    this.#life = lost
    transaction?.end('transaction:lost', lost)
    this.queue.rejectAll(lost)
    this.queue.dropPrefix()
    this.#endWaits()
    this.cursor?.stop()
    void this.pump.run()
    return lost
  }

  /** The stream is closed, as far as it can be. */
  closed(): void {
    this.#transaction?.end('transaction:rollback')
    this.#transaction?.endTurn()
    this.#transaction = null
  }

  /** The transaction that was begun and is not over, as far as the client knows. */
  get current(): StreamTransaction | null {
    return typeof this.#life === 'string' ? this.#transaction : null
  }

  /** Ends the reading of rows by a handle. @returns whether it was reading, or about to */
  breakCursor(owner: object): boolean {
    const isQueued = this.queue.rejectCursors(
      new StreamError('STREAM_CLOSED', 'the handle ended before the rows were read'),
      owner,
    )
    if (this.cursor?.owner !== owner) return isQueued
    this.cursor.stop()
    return true
  }

  /** Waits for something else to end, such as a savepoint. @throws TransportError; the signal's reason; StreamError */
  async waitFor(
    event: Promise<unknown>,
    what: string,
    { leftMs, timeoutMs }: Deadline,
    signal?: AbortSignal,
  ): Promise<void> {
    signal?.throwIfAborted()
    this.checkOpen()
    const late = (): Error =>
      new TransportError('TIMEOUT', `${what} was not over within ${timeoutMs} ms`, 'not_applied')
    const onEnd = (): void => void this.#waits.delete(waiter)
    const waiter: Waiter = new Waiter(this.connection.http.clock, { ms: leftMs, signal, late, onEnd })
    this.#waits.add(waiter)
    void event.then(() => waiter.resolve())
    await waiter.promise
  }
}
