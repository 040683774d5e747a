import { atCaller } from '../base/at-caller.ts'
import type { Deadline } from '../base/deadline.ts'
import { Deferred } from '../base/deferred.ts'
import { ProtocolError, SqlError, StreamError } from '../base/errors.ts'
import { STREAM_IDLE_MS } from '../base/limits.ts'
import { beginStatement, COMMIT, type ControlStatement, ROLLBACK } from '../codec/control.ts'
import { InsertedRowids } from '../codec/inserted-rowids.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { Http } from '../http/http.ts'
import type { OpenStream } from '../http/lifetime.ts'
import type { WriteSlot } from '../http/write-lock.ts'
import type { BatchOptions, CallOptions, StatementOptions } from '../options.ts'
import type { Cursor, QueuedCall, Results } from '../request/queued-call.ts'
import { areRead, batchMode, type MarkLost, SqlRequest, takesLock } from '../request/sql-request.ts'
import { timeoutError } from '../transport/failure.ts'
import { callError, classifyFailure } from './classify-failure.ts'
import { OpenTransaction } from './open-transaction.ts'
import { StatementQueue } from './statement-queue.ts'
import { type Answer, isMissing, StreamConnection } from './stream-connection.ts'
import { Waits } from './waits.ts'

/** What a handle of a transaction adds to its call. */
export type HandleCall = Pick<QueuedCall, 'deadline' | 'refusal'>

type NewCall = Omit<QueuedCall, 'resolve' | 'reject' | 'prefix' | 'canCoalesce' | 'deadline' | 'isRead'> &
  Partial<Pick<QueuedCall, 'prefix' | 'canCoalesce' | 'deadline' | 'isRead'>>

/** What is known of a request before its answer. */
export interface SentAt {
  readonly startedAt: number
  /** Whether it went to a stream that the server had already. */
  readonly continuesStream: boolean
}

/**
 * What the stream does: nothing; gather what is issued in one tick; wait for its slot to write; wait for an answer; let rows be
 * read; be closed on the server; or it is closed.
 */
type Phase = 'idle' | 'gathering' | 'waiting' | 'sending' | Cursor | 'closing' | 'closed'

/** For so many microtasks a request gathers: what is issued behind an `await` or two still leaves with it. */
const GATHERING_HOPS = 4

/** Calls in one request where each carries the conditions of all before it. */
const V2_CALLS = 32

/**
 * A stream of the server: one queue of statements, ends of transactions and readings of rows, of which one at a time is under way.
 * Whatever happens ends in `#next`, which decides what comes now.
 */
export class ServerStream implements OpenStream {
  readonly http: Http
  readonly connection: StreamConnection
  readonly #queue: StatementQueue
  readonly #rowids = new InsertedRowids()
  #phase: Phase = 'idle'
  /** `ending`: what is queued still runs. An error: it is lost, and so is what was queued. */
  #life: 'open' | 'ending' | StreamError = 'open'
  #transaction: OpenTransaction | null = null
  /** The transaction's slot among those of the client that write, or its wait for that. */
  #slot: WriteSlot | null = null
  #lastSql: string | undefined
  readonly #waits = new Waits()
  /** Whether the last request got no usable answer, so that `close` does not wait for the next. */
  #isSilent = false
  /** Calls of `close` that wait. */
  #closings: (() => void)[] = []
  #onClosed = (): void => {}
  /** Settles when the last request has been answered. */
  answered: Promise<void> = Promise.resolve()

  /** @param belongsToCall whether it is opened by a call that the client knows of */
  constructor(http: Http, belongsToCall = false) {
    this.http = http
    this.connection = new StreamConnection(http, this, belongsToCall)
    this.#queue = new StatementQueue(http, () => this.#stopWaiting())
  }

  /** Whether a transaction was begun and not ended, as far as the client knows. */
  get inTransaction(): boolean {
    return this.#transaction?.ending === null
  }

  /** The number of the transaction in events. */
  get transactionId(): number | null {
    return this.#transaction?.id ?? null
  }

  /** Whether statements can still be run: neither closed nor lost. */
  get isOpen(): boolean {
    return this.#life === 'open'
  }

  /** When others that wait to write may take over, in ms since the epoch; null as long as no transaction holds them up. */
  get expiresAt(): number | null {
    return this.#transaction?.expiresAt ?? null
  }

  /** Whether a transaction has the write lock, or its slot to get it. */
  get holdsLock(): boolean {
    return this.#transaction !== null && (this.#slot !== null || this.expiresAt !== null)
  }

  get #cursor(): Cursor | null {
    return typeof this.#phase === 'string' ? null : this.#phase
  }

  run(
    statements: readonly EncodedStatement[],
    outside: QueuedCall['scope'],
    options: BatchOptions,
    handle?: HandleCall,
  ): Promise<Results> {
    if (statements.length === 0) return Promise.resolve([])
    const { inTransaction } = this
    const scope = inTransaction ? 'transaction' : outside
    const isRead = areRead(statements, options)
    const prefix = scope === 'atomic' ? [beginStatement(batchMode(isRead, options))] : []
    const call = { statements, scope, prefix, isRead, canCoalesce: inTransaction, options, ...handle }
    return this.http.events.query(statements, inTransaction ? this.transactionId : null, () =>
      this.#add(call),
    )
  }

  /** Begins a transaction. Nothing is sent: BEGIN travels with the first statement. */
  begin(statement: ControlStatement): void {
    this.checkOpen()
    if (this.#transaction)
      throw new TypeError(
        this.inTransaction
          ? 'a transaction is open on this stream; use a savepoint'
          : 'the transaction before is not over yet',
      )
    this.#queue.addPrefix(statement)
    const transaction = new OpenTransaction(this.http, {
      isIdle: () => this.#phase === 'idle' && this.#transaction === transaction,
      expire: (message) => this.markLost('TRANSACTION_EXPIRED', message),
    })
    this.#transaction = transaction
    // the observer may end it
    transaction.begin()
  }

  /** Commits. A transaction without statements sends nothing. @throws StreamError when the transaction was lost */
  async commit(options: CallOptions = {}): Promise<void> {
    if (!this.inTransaction && this.isOpen) throw new TypeError('no transaction is open on this stream')
    this.checkNoCursor()
    try {
      await this.#endTransaction('commit', options)
    } catch (error) {
      throw atCaller(error, [{ sql: 'commit' }])
    }
  }

  /**
   * Rolls back. Never rejects because the transaction is gone already.
   * @throws the signal's reason; TransportError `TIMEOUT`: given up while another end of the transaction was under way
   */
  async rollback(options: CallOptions = {}): Promise<void> {
    const transaction = this.#transaction
    // a COMMIT may be refused
    if (transaction?.ending) await this.#settled(transaction.ending, options)
    // to close is to roll back
    if (!transaction || transaction !== this.#transaction || !this.isOpen) return
    const over = (): StreamError => new StreamError('STREAM_CLOSED', 'the transaction was rolled back')
    this.#stopCursors(over)
    // the server knows nothing of it yet
    if (this.#phase === 'waiting') this.#queue.rejectAll(over())
    try {
      await this.#endTransaction('rollback', options)
    } catch (error) {
      // lost, refused or cut off: in each case the server rolls back, at the latest when it drops the stream
      this.markLost('TRANSACTION_LOST', 'the rollback failed and the stream was given up', error)
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

  /**
   * Closes the stream, after what is queued; an open transaction is rolled back. Does not wait for a server that did not answer
   * before. Never rejects.
   */
  close(): Promise<void> {
    // it would be read to its end
    if (this.#cursor?.isRead === false)
      this.markLost('STREAM_CLOSED', 'closed while rows of a write were read')
    if (this.#life === 'open') this.#life = 'ending'
    this.#stopCursors(() => this.endError())
    this.#waits.rejectAll(() => this.endError())
    this.#transaction?.stopTimer()
    this.#stopWaiting()
    this.#next()
    const isOver = this.#isSilent || this.#phase === 'closed'
    return isOver ? Promise.resolve() : new Promise((resolve) => this.#closings.push(resolve))
  }

  /** Ends it because the client is closed. */
  async abandon(): Promise<void> {
    this.markLost(this.#transaction ? 'TRANSACTION_LOST' : 'STREAM_CLOSED', 'the client was closed')
    if (this.#phase !== 'closed') await new Promise<void>((resolve) => (this.#onClosed = resolve))
  }

  checkOpen(): void {
    if (this.#life !== 'open') throw this.endError()
  }

  endError(): StreamError {
    return typeof this.#life === 'string'
      ? new StreamError('STREAM_CLOSED', 'the stream is closed')
      : this.#life
  }

  /** Waits until a call has settled. @throws the signal's reason; TransportError `TIMEOUT` */
  #settled(call: Promise<unknown>, { timeoutMs, signal }: CallOptions): Promise<void> {
    const { clock } = this.http
    const deadline = this.http.deadline(timeoutMs)
    const late = (): Error => timeoutError(deadline.timeoutMs, this.connection.address.origin, false)
    const waiter = new Deferred(clock, { ms: deadline.leftMs, signal, late })
    const settle = (): void => waiter.resolve()
    call.then(settle, settle)
    return waiter.promise
  }

  #stopCursors(reason: () => StreamError): void {
    this.#cursor?.stop(false, reason())
    this.#queue.rejectCursors(reason)
  }

  /**
   * Prevents a deadlock: the loop over the rows would await a statement that is queued behind it.
   * @param owner only rows that this handle reads @throws TypeError
   */
  checkNoCursor(owner?: object): void {
    const cursor = this.#phase
    if (typeof cursor !== 'string' && !cursor.isStopped && cursor.owner === (owner ?? cursor.owner))
      throw new TypeError('rows are being read on this stream: leave the loop first')
  }

  /** Queues the end of the transaction; sends nothing when the server knows nothing of it. */
  #endTransaction(ends: 'commit' | 'rollback', options: CallOptions): Promise<unknown> | undefined {
    this.checkOpen()
    const transaction = this.#transaction as OpenTransaction
    options.signal?.throwIfAborted()
    const deadline = this.http.deadline(options.timeoutMs)
    // the server knows nothing of it yet
    if (this.#queue.isToBegin) {
      this.#queue.dropPrefix()
      this.#finishTransaction(ends)
      this.#stopWaiting()
      return undefined
    }
    const statements = [ends === 'commit' ? COMMIT : ROLLBACK]
    transaction.ending = this.#add({
      statements,
      scope: 'transaction',
      ends,
      isRead: false,
      options: { ...options },
      deadline,
    })
    return transaction.ending
  }

  /** The transaction has ended on the server. */
  #finishTransaction(ends: 'commit' | 'rollback'): void {
    this.#dropTransaction(`transaction:${ends}`)
    if (this.#phase !== 'waiting') this.#releaseSlot()
  }

  /** The transaction has ended here. It keeps its slot until the server has ended it, too. */
  #dropTransaction(
    type: 'transaction:commit' | 'transaction:rollback' | 'transaction:lost',
    error?: StreamError,
  ): void {
    const transaction = this.#transaction
    this.#transaction = null
    transaction?.end(type, error)
  }

  /** The COMMIT was refused, as by a deferred constraint, or never left: the transaction is still there, to be mended or rolled back. */
  #restoreTransaction(): void {
    if (!this.#transaction) return
    this.#transaction.ending = null
    // was to run behind it, on its own
    this.#queue.rejectAll(new StreamError('TRANSACTION_LOST', 'not run: the COMMIT before it failed'))
  }

  #add<T = Results>(call: NewCall): Promise<T> {
    this.checkOpen()
    this.checkNoCursor()
    const { statements, scope, ends, cursor, prefix = [], canCoalesce = false, options, refusal } = call
    const { isRead = areRead(statements, options), deadline = this.http.deadline(options.timeoutMs) } = call
    options.signal?.throwIfAborted()
    const transaction = this.#transaction
    return new Promise((resolve, reject) => {
      // by name: to spread calls, which do not all have the same properties, took 3 µs for each
      const queued: QueuedCall = {
        statements,
        scope,
        ends,
        cursor,
        prefix,
        canCoalesce,
        isRead,
        options,
        deadline,
        refusal,
        resolve: (results) => {
          if (ends && this.#transaction === transaction) this.#finishTransaction(ends)
          resolve(results as T)
        },
        reject: (error) => {
          if (!ends) transaction?.addFailure(error)
          else if (this.#transaction === transaction) this.#restoreTransaction()
          reject(error)
        },
      }
      this.#queue.add(queued)
      if (this.#phase === 'idle') this.#gather()
      // the request that leaves in this tick has a watch of its own
      else if (this.#phase !== 'gathering') this.#queue.watch(queued, this.#phase === 'waiting')
    })
  }

  /** What is issued in the same tick leaves together. */
  #gather(hops = GATHERING_HOPS): void {
    this.#phase = 'gathering'
    queueMicrotask(hops > 1 ? () => this.#gather(hops - 1) : this.#goOn)
  }

  /** What was under way is done. */
  readonly #goOn = (): void => {
    this.#phase = 'idle'
    this.#next()
  }

  /** Decides what comes next, unless something is under way. */
  #next(): void {
    if (this.#phase !== 'idle') return
    const head = this.#queue.findHead()
    const isEnding = this.#life !== 'open'
    if (!head) {
      // the server knows nothing of the transaction: others may write
      if (this.#queue.isToBegin) this.#releaseSlot()
      if (isEnding) void this.#close()
      else this.#transaction?.startTimer()
    } else if (head.ends && this.#queue.headBegins) {
      // the server knows nothing of the transaction
      this.#queue.take(1)
      head.resolve([])
      this.#next()
    } else if (!this.#slot && this.#transaction && this.#queue.headBegins && takesLock(head))
      void this.#acquireSlot()
    else if (head.cursor && head.prefix.length > 0) this.answered = this.#send([this.#queue.takePrefix(head)])
    else if (head.cursor) {
      this.#queue.take(1)
      this.#phase = head.cursor
      head.resolve([])
    } else if (isEnding && head.ends === 'rollback' && this.#queue.length === 1) {
      // to close is to roll back; it may be given up meanwhile
      this.#queue.watch(head, false)
      void this.#close().then(() => this.#queue.take(1)[0]?.resolve([]))
    } else this.answered = this.#send(this.#queue.take(this.connection.isV3 ? Infinity : V2_CALLS))
  }

  async #acquireSlot(): Promise<void> {
    try {
      const slot = this.http.writeLock.acquireSlot()
      this.#slot = slot
      const { waiter } = slot
      if (waiter) {
        this.#phase = 'waiting'
        this.#queue.watchAll(true)
        // given up, with all that waited for it
        const isGivenUp = (): boolean => this.#slot !== slot
        await waiter.promise.catch((error: unknown) => {
          if (!isGivenUp()) throw error
        })
        if (isGivenUp()) return
        this.#queue.restartTime()
      }
    } catch (error) {
      this.#releaseSlot()
      this.#queue.rejectAll(error)
    }
    this.#goOn()
  }

  /** Ends the wait for the slot when no call waits for it any more. */
  #stopWaiting(): void {
    if (this.#phase !== 'waiting' || this.#queue.length > 0) return
    this.#releaseSlot()
    this.#goOn()
  }

  #releaseSlot(): void {
    const slot = this.#slot
    this.#slot = null
    slot?.release()
  }

  /** Sends calls in one request, and settles them. Never rejects. */
  async #send(calls: readonly QueuedCall[]): Promise<void> {
    const { connection, http } = this
    this.#phase = 'sending'
    const request = new SqlRequest(calls)
    const closes = this.#life !== 'open' && this.#queue.length === 0
    const sentAt = { startedAt: http.clock.now(), continuesStream: connection.baton !== null }
    const { writes } = request
    this.#lastSql = request.lastSql
    const lock = { mayHoldLock: writes || this.holdsLock, ownSlots: this.#slot ? 1 : 0 }
    const sent = await connection.send(request, closes, lock)
    try {
      if (sent.isOk) this.#settle(request, sent.value, closes)
      else if (sent.isSent) throw sent.error
      else this.#notSent(calls, sent.error)
    } catch (error) {
      this.#fail(calls, error, sentAt)
    }
    this.#goOn()
  }

  #settle(request: SqlRequest, answer: Answer, closes: boolean): void {
    const { markLost } = this
    const { intMode } = this.http.config
    const { again, prefix, ranNothing } = request.settle(answer, { intMode, rowids: this.#rowids, markLost })
    if (again) this.#queue.putBack(again)
    if (prefix) this.#queue.passPrefix(prefix)
    if (!ranNothing) this.gotAnswer(request.writes)
    if (!this.connection.baton && !closes && this.#transaction)
      throw new ProtocolError('no baton in the middle of a transaction')
  }

  /** An answer says that a request has run. @param gotLock whether it was one that takes the write lock */
  gotAnswer(gotLock: boolean): void {
    if (gotLock) this.#transaction?.gotLock()
  }

  /** The request never left: those of its calls that are to blame go, and the stream is as it was. */
  #notSent(calls: readonly QueuedCall[], error: unknown): void {
    if (!this.connection.baton) this.#releaseSlot()
    this.#queue.putBack(calls)
    const over = calls.filter(({ options, deadline }) => options.signal?.aborted || deadline.leftMs <= 0)
    const { origin } = this.connection.address
    for (const call of over.length > 0 ? over : calls) {
      const { options, deadline } = call
      const late = deadline.leftMs <= 0 ? timeoutError(deadline.timeoutMs, origin, false) : error
      this.#queue.remove(call, options.signal?.aborted ? options.signal.reason : late)
    }
  }

  /** A request got no usable answer: the stream is gone, and the transaction with it. */
  #fail(calls: readonly QueuedCall[], error: unknown, { startedAt, continuesStream }: SentAt): void {
    const failed = {
      error,
      continuesStream,
      durationMs: this.http.clock.now() - startedAt,
      inTransaction: calls.some(({ scope }) => scope === 'transaction') || this.#transaction !== null,
      commits: calls[0]?.ends === 'commit',
    }
    const failure = classifyFailure(failed)
    // a baton that the server has not refused may still close the stream, and free the write lock
    if (failure.isUnknownStream) this.connection.baton = null
    else {
      this.#isSilent = true
      this.#endClosings()
    }
    const lost = this.markLost(failure.code, failure.message, error)
    for (const call of calls) call.reject(callError(call, failed, failure, lost))
  }

  /** Closes it on the server, as far as it can be. */
  async #close(): Promise<void> {
    this.#phase = 'closing'
    if (this.connection.mayBeOpen) {
      // by then the server has closed it by itself: others need not wait for an answer that may never come
      const cancel = this.http.clock.after(STREAM_IDLE_MS, () => this.#releaseSlot())
      await this.connection.end()
      cancel()
    }
    this.#phase = 'closed'
    this.#dropTransaction('transaction:rollback')
    this.#releaseSlot()
    this.#endClosings()
    this.#onClosed()
  }

  #endClosings(): void {
    for (const resolve of this.#closings) resolve()
  }

  readonly markLost: MarkLost = (code, message, cause) => {
    if (typeof this.#life !== 'string') return this.#life
    const lost = new StreamError(code, message, cause, this.#transaction?.elapsedMs, this.#lastSql)
    this.#life = lost
    this.#dropTransaction('transaction:lost', lost)
    this.#queue.rejectAll(lost)
    this.#queue.dropPrefix()
    this.#waits.rejectAll(() => this.endError())
    this.#cursor?.stop(true, lost)
    this.#stopWaiting()
    this.#next()
    return lost
  }

  /** Queues the reading of rows. Settles when it is its turn: it has the stream to itself then, until `giveBack`. */
  async read(
    cursor: Cursor,
    statement: EncodedStatement,
    call: HandleCall & { options: StatementOptions },
  ): Promise<void> {
    const scope = this.inTransaction ? 'transaction' : 'autocommit'
    await this.#add({ ...call, statements: [statement], scope, cursor })
  }

  /** The reading of rows is over: the stream goes on. */
  giveBack(cursor: Cursor): void {
    if (this.#phase === cursor) this.#goOn()
  }

  /** The reading of rows has failed. @param call hears what that means, unless it is the statement's own error */
  cursorFailed(cursor: Cursor, error: unknown, call: QueuedCall, sent: SentAt): void {
    // an error of the statement itself leaves the stream as it was; and one of the stream has been dealt with
    const isKnown = error instanceof SqlError || error instanceof StreamError
    // a server without cursors knows the stream all the same
    const continuesStream = sent.continuesStream && !isMissing(error)
    if (this.#phase === cursor && !isKnown) this.#fail([call], error, { ...sent, continuesStream })
  }

  /** Ends the reading of rows by a handle. @returns whether it was reading, or about to */
  breakCursor(owner: object): boolean {
    const over = (): StreamError =>
      new StreamError('STREAM_CLOSED', 'the handle ended before the rows were read')
    const isQueued = this.#queue.rejectCursors(over, owner)
    if (this.#cursor?.owner !== owner) return isQueued
    this.#cursor.stop(false, this.endError())
    return true
  }

  /** Waits for something else to end, such as a savepoint. @throws TransportError; the signal's reason; StreamError */
  async waitFor(
    event: Promise<unknown>,
    what: string,
    deadline: Deadline,
    signal?: AbortSignal,
  ): Promise<void> {
    signal?.throwIfAborted()
    this.checkOpen()
    await this.#waits.wait(event, what, this.http.clock, deadline, signal)
  }
}
