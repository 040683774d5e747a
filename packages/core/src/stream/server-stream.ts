import type { Deadline } from '../base/deadline.ts'
import { ProtocolError, SqlError, StreamError } from '../base/errors.ts'
import { STREAM_IDLE_MS } from '../base/limits.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { Http } from '../http/http.ts'
import type { OpenStream } from '../http/lifetime.ts'
import type { BatchOptions, StatementOptions } from '../options.ts'
import {
  areReadOnly,
  batchPrefix,
  type Cursor,
  type QueuedCall,
  type Results,
} from '../request/queued-call.ts'
import { type MarkLost, SqlRequest } from '../request/sql-request.ts'
import { timeoutError } from '../transport/failure.ts'
import { callError, classifyFailure } from './classify-failure.ts'
import { nextAction } from './next-action.ts'
import { StatementQueue } from './statement-queue.ts'
import { type Answer, isMissing, StreamConnection } from './stream-connection.ts'
import { TransactionControl } from './transaction-control.ts'
import { Waits } from './waits.ts'

/** What a handle of a transaction adds to its call. */
export type HandleCall = Pick<QueuedCall, 'deadline' | 'cancelReason'>

type NewCall = Omit<QueuedCall, 'resolve' | 'reject' | 'prefix' | 'canCoalesce'> &
  Partial<Pick<QueuedCall, 'prefix' | 'canCoalesce'>>

/** What is known of a request before its answer. */
export interface SentAt {
  readonly startedAt: number
  /** Whether it was sent to a stream that existed on the server. */
  readonly continuesStream: boolean
}

/**
 * What the stream does: nothing; collect what is called in one tick; wait for its write permit; wait for an answer; let rows be
 * read; be closed on the server; or it is closed.
 */
type Phase = 'idle' | 'collecting' | 'waiting' | 'sending' | 'reading' | 'closing' | 'closed'

/** A flush is put off for so many microtasks: what is called after an `await` or two still joins the request. */
const FLUSH_MICROTASKS = 4

/** Calls in one request to a `/v2` server, where each carries the conditions of all before it. */
const V2_CALLS = 32

/**
 * A stream of the server: one queue of statements, transaction ends and readings of rows, of which one at a time is in flight.
 * `nextAction` decides what follows, and `#next` does it.
 */
export class ServerStream implements OpenStream {
  readonly http: Http
  readonly connection: StreamConnection
  readonly transaction: TransactionControl
  readonly #queue: StatementQueue
  #phase: Phase = 'idle'
  /** The reading of rows that has the stream to itself. */
  #cursor: Cursor | null = null
  /** `closing`: what is queued still runs. An error: the stream was lost, and so was what was queued. */
  #status: 'open' | 'closing' | StreamError = 'open'
  #lastSql: string | undefined
  readonly #waits: Waits
  /** Whether the last request got no usable answer, so that `close` does not wait for the next. */
  #isUnresponsive = false
  /** Calls of `close` that wait. */
  #closings: (() => void)[] = []
  #onClosed = (): void => {}
  /** Settles when the last request has been answered. */
  answered: Promise<void> = Promise.resolve()

  /** @param isTracked whether it is opened by a call that the client waits for when it is closed */
  constructor(http: Http, isTracked = false) {
    this.http = http
    this.connection = new StreamConnection(http, this, isTracked)
    this.#waits = new Waits(http.lifetime)
    this.#queue = new StatementQueue(http, () => this.stopWaiting())
    this.transaction = new TransactionControl(http, this.#queue, this)
  }

  /** Whether statements can still be run: neither closed nor lost. */
  get isOpen(): boolean {
    return this.#status === 'open'
  }

  get isIdle(): boolean {
    return this.#phase === 'idle'
  }

  run(
    statements: readonly EncodedStatement[],
    outside: QueuedCall['scope'],
    options: BatchOptions,
    handle?: HandleCall,
  ): Promise<Results> {
    if (statements.length === 0) return Promise.resolve([])
    const { current, isOpen: inTransaction } = this.transaction
    const scope = inTransaction ? 'transaction' : outside
    const isReadOnly = areReadOnly(statements, options)
    const call = {
      statements,
      scope,
      prefix: scope === 'atomic' ? batchPrefix(isReadOnly, options) : [],
      isReadOnly,
      canCoalesce: inTransaction,
      options,
      deadline: handle?.deadline ?? this.http.deadline(options.timeoutMs),
      cancelReason: handle?.cancelReason,
    }
    return this.http.events.query(statements, (inTransaction && current?.id) || null, () =>
      this.enqueue(call),
    )
  }

  /**
   * Closes the stream after what is queued; an open transaction is rolled back. Does not wait for a server that did not answer
   * the last request. Never rejects.
   */
  close(): Promise<void> {
    // it would be read to its end
    if (this.#cursor?.isReadOnly === false)
      this.markLost('STREAM_CLOSED', 'closed while rows of a write were read')
    if (this.#status === 'open') this.#status = 'closing'
    this.stopCursors(() => this.endError())
    this.#waits.rejectAll(() => this.endError())
    this.transaction.current?.stopTimer()
    this.stopWaiting()
    this.#next()
    const isOver = this.#isUnresponsive || this.#phase === 'closed'
    return isOver ? Promise.resolve() : new Promise((resolve) => this.#closings.push(resolve))
  }

  /** Ends it because the client is closed. */
  async abandon(): Promise<void> {
    this.markLost(this.transaction.current ? 'TRANSACTION_LOST' : 'STREAM_CLOSED', 'the client was closed')
    if (this.#phase !== 'closed') await new Promise<void>((resolve) => (this.#onClosed = resolve))
  }

  checkOpen(): void {
    if (!this.isOpen) throw this.endError()
  }

  endError(): StreamError {
    return typeof this.#status === 'string'
      ? new StreamError('STREAM_CLOSED', 'the stream is closed')
      : this.#status
  }

  stopCursors(reason: () => StreamError): void {
    this.#cursor?.stop(false, reason())
    this.#queue.rejectCursors(reason)
  }

  /**
   * Prevents a deadlock: the loop over the rows would await a statement that is queued after it.
   * @param owner only rows that this handle reads @throws TypeError
   */
  checkNoCursor(owner?: object): void {
    const cursor = this.#cursor
    if (cursor && !cursor.isStopped && cursor.owner === (owner ?? cursor.owner))
      throw new TypeError('rows are being read on this stream: leave the loop first')
  }

  /** Queues a call. @param onSettled called before its promise settles */
  enqueue(call: NewCall, onSettled?: (isDone: boolean) => void): Promise<Results> {
    this.checkOpen()
    this.checkNoCursor()
    const { statements, scope, transactionEnd, cursor, prefix = [], canCoalesce = false, isReadOnly } = call
    const { options, deadline, cancelReason } = call
    options.signal?.throwIfAborted()
    const { current } = this.transaction
    return new Promise((resolve, reject) => {
      // by name: to spread calls, which do not all have the same properties, took 3 µs for each
      const queued: QueuedCall = {
        statements,
        scope,
        transactionEnd,
        cursor,
        prefix,
        canCoalesce,
        isReadOnly,
        options,
        deadline,
        cancelReason,
        resolve: (results) => {
          onSettled?.(true)
          resolve(results)
        },
        reject: (error) => {
          if (onSettled) onSettled(false)
          else current?.addFailure(error)
          reject(error)
        },
      }
      this.#queue.add(queued)
      if (this.#phase === 'idle') this.#scheduleFlush()
      // the request that leaves in this tick has a watch of its own
      else if (this.#phase !== 'collecting') this.#queue.watch(queued, this.#phase === 'waiting')
    })
  }

  /** Lets what is called in the same tick join the request. */
  #scheduleFlush(microtasks = FLUSH_MICROTASKS): void {
    this.#phase = 'collecting'
    queueMicrotask(microtasks > 1 ? () => this.#scheduleFlush(microtasks - 1) : this.#resume)
  }

  /** Continues after what was in flight. */
  readonly #resume = (): void => {
    this.#phase = 'idle'
    this.#next()
  }

  /** Does what comes next, unless something is in flight. */
  #next(): void {
    if (this.#phase !== 'idle') return
    const { connection, isOpen, transaction } = this
    const queue = this.#queue
    const head = queue.findHead()
    const isWithoutPermit = transaction.current !== null && !transaction.hasPermit
    const action = nextAction({ isOpen, head, length: queue.length, isWithoutPermit })
    // the server does not know the transaction: others may write
    if (!head && queue.hasPendingBegin) transaction.releasePermit()
    if (action === 'idle') transaction.current?.startTimer()
    else if (action === 'acquirePermit') void this.#acquirePermit()
    else if (action === 'send') this.answered = this.#send(queue.take(connection.isV3 ? Infinity : V2_CALLS))
    else if (!head) void this.#close()
    else if (action === 'sendPrefix') this.answered = this.#send([queue.takePrefix(head)])
    else if (action === 'rollBackByClosing') {
      // it may be aborted meanwhile
      queue.watch(head, false)
      void this.#close().then(() => queue.take(1)[0]?.resolve([]))
    } else {
      queue.take(1)
      if (head.cursor) {
        this.#phase = 'reading'
        this.#cursor = head.cursor
      }
      head.resolve([])
      this.#next()
    }
  }

  async #acquirePermit(): Promise<void> {
    try {
      const acquired = this.transaction.acquirePermit()
      if (acquired) {
        this.#phase = 'waiting'
        this.#queue.watchAll(true)
        // released, with all that waited for it
        if (!(await acquired)) return
        this.#queue.restartTime()
      }
    } catch (error) {
      this.transaction.releasePermit()
      this.#queue.rejectAll(error)
    }
    this.#resume()
  }

  /** Ends a wait for the write permit that no call needs. @param reason rejects the calls that need it */
  stopWaiting(reason?: StreamError): void {
    if (this.#phase !== 'waiting') return
    if (reason) this.#queue.rejectAll(reason)
    if (this.#queue.length > 0) return
    this.transaction.releasePermit()
    this.#resume()
  }

  /** Sends calls in one request, and settles them. Never rejects. */
  async #send(calls: readonly QueuedCall[]): Promise<void> {
    const { connection, http, transaction } = this
    this.#phase = 'sending'
    const request = new SqlRequest(calls)
    const closes = !this.isOpen && this.#queue.length === 0
    const sentAt = { startedAt: http.clock.now(), continuesStream: connection.baton !== null }
    this.#lastSql = request.lastSql
    const lock = {
      mayHoldLock: request.needsWriteLock || transaction.holdsLock,
      ownPermits: transaction.hasPermit ? 1 : 0,
    }
    const sent = await connection.send(request, closes, lock)
    try {
      if (sent.isOk) this.#settle(request, sent.value, closes)
      else if (sent.isSent) throw sent.error
      else this.#notSent(calls, sent.error)
    } catch (error) {
      this.#fail(calls, error, sentAt)
    }
    this.#resume()
  }

  #settle(request: SqlRequest, answer: Answer, closes: boolean): void {
    const { connection, markLost } = this
    const { intMode } = this.http.config
    const { rowids } = connection
    const { again, prefix, ranNothing } = request.settle(answer, { intMode, rowids, markLost })
    if (again) this.#queue.putBack(again)
    if (prefix) this.#queue.passPrefix(prefix)
    if (!ranNothing) this.gotAnswer(request.needsWriteLock)
    if (!connection.baton && !closes && this.transaction.current)
      throw new ProtocolError('no baton in the middle of a transaction')
  }

  /** A request has run. @param gotLock whether it was one that acquires the write lock */
  gotAnswer(gotLock: boolean): void {
    if (gotLock) this.transaction.current?.gotLock()
  }

  /** Handles a request that was not sent: those of its calls that are the reason are rejected, and the stream is as it was. */
  #notSent(calls: readonly QueuedCall[], error: unknown): void {
    const { address, baton } = this.connection
    if (!baton) this.transaction.releasePermit()
    this.#queue.putBack(calls)
    const over = calls.filter(({ options, deadline }) => options.signal?.aborted || deadline.leftMs <= 0)
    for (const call of over.length > 0 ? over : calls) {
      const { options, deadline } = call
      const reason = deadline.leftMs <= 0 ? timeoutError(deadline.timeoutMs, address.origin, false) : error
      this.#queue.remove(call, options.signal?.aborted ? options.signal.reason : reason)
    }
  }

  /** Handles a request without a usable answer: the stream is lost, and the transaction with it. */
  #fail(calls: readonly QueuedCall[], error: unknown, { startedAt, continuesStream }: SentAt): void {
    const failed = {
      error,
      continuesStream,
      durationMs: this.http.clock.now() - startedAt,
      inTransaction: calls.some(({ scope }) => scope === 'transaction') || this.transaction.current !== null,
      commits: calls[0]?.transactionEnd === 'commit',
    }
    const failure = classifyFailure(failed)
    // a baton that the server has not refused may still close the stream, and release the write lock
    if (failure.isUnknownStream) this.connection.baton = null
    else {
      this.#isUnresponsive = true
      this.#endClosings()
    }
    const lost = this.markLost(failure.code, failure.message, error)
    for (const call of calls) call.reject(callError(call, failed, failure, lost))
  }

  /** Closes it on the server, if it may exist there. */
  async #close(): Promise<void> {
    const { connection, http, transaction } = this
    this.#phase = 'closing'
    if (connection.mayBeOpen) {
      // by then the server has closed it by itself: others need not wait for an answer that may never come
      const cancel = http.clock.after(STREAM_IDLE_MS, () => transaction.releasePermit())
      await connection.end()
      cancel()
    }
    this.#phase = 'closed'
    transaction.drop('transaction:rollback')
    transaction.releasePermit()
    this.#endClosings()
    this.#onClosed()
  }

  #endClosings(): void {
    for (const resolve of this.#closings) resolve()
  }

  readonly markLost: MarkLost = (code, message, cause) => {
    if (typeof this.#status !== 'string') return this.#status
    const { transaction } = this
    const lost = new StreamError(code, message, cause, transaction.current?.elapsedMs, this.#lastSql)
    this.#status = lost
    transaction.drop('transaction:lost', lost)
    this.#queue.rejectAll(lost)
    this.#queue.dropPrefix()
    this.#waits.rejectAll(() => lost)
    this.#cursor?.stop(true, lost)
    this.stopWaiting()
    this.#next()
    return lost
  }

  /** Queues the reading of rows. Settles when it has the stream to itself, until `releaseCursor`. */
  async read(
    cursor: Cursor,
    statement: EncodedStatement,
    { options, deadline, cancelReason }: HandleCall & { options: StatementOptions },
  ): Promise<void> {
    const { isReadOnly } = cursor
    const scope = this.transaction.isOpen ? 'transaction' : 'autocommit'
    await this.enqueue({
      statements: [statement],
      scope,
      cursor,
      isReadOnly,
      options,
      deadline,
      cancelReason,
    })
  }

  /** Continues after the reading of rows. */
  releaseCursor(cursor: Cursor): void {
    if (this.#cursor !== cursor) return
    this.#cursor = null
    this.#resume()
  }

  /** Handles a failed reading of rows. @param call is rejected, unless the statement itself has failed */
  cursorFailed(cursor: Cursor, error: unknown, call: QueuedCall, sent: SentAt): void {
    // an error of the statement leaves the stream as it was; one of the stream has been dealt with
    const isKnown = error instanceof SqlError || error instanceof StreamError
    // a server without cursors knows the stream all the same
    const continuesStream = sent.continuesStream && !isMissing(error)
    if (this.#cursor === cursor && !isKnown) this.#fail([call], error, { ...sent, continuesStream })
  }

  /** Ends the reading of rows by a handle. @returns whether one was running or queued */
  breakCursor(owner: object): boolean {
    const reason = (): StreamError =>
      new StreamError('STREAM_CLOSED', 'the handle ended before the rows were read')
    const isQueued = this.#queue.rejectCursors(reason, owner)
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
    await this.#waits.wait(event, what, deadline, signal)
  }
}
