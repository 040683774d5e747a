import type { Deadline } from '../base/deadline.ts'
import { ProtocolError, StreamError, TransportError } from '../base/errors.ts'
import { STREAM_IDLE_MS } from '../base/limits.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { Http } from '../http/http.ts'
import type { OpenStream } from '../http/lifetime.ts'
import type { AtomicBatchOptions } from '../options.ts'
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
import type { StreamResults } from './sending.ts'
import { StatementQueue } from './statement-queue.ts'
import { StreamConnection } from './stream-connection.ts'
import { rolledBack, TransactionControl, type TransactionStream } from './transaction-control.ts'

/** Options that the handle of a transaction or savepoint adds to its call. */
export type HandleCall = Pick<QueuedCall, 'deadline' | 'cancelReason'>

type NewCall = Omit<QueuedCall, 'resolve' | 'reject'>

/** The state of a request before its response. */
export interface SentAt {
  readonly startedAt: number
  /** Whether it continues a stream that exists on the server. */
  readonly continuesStream: boolean
}

/**
 * The stream is idle, collects the calls of one tick, waits for its write permit, waits for a response, lets a cursor read,
 * is being closed on the server, or is closed.
 */
type Phase = 'idle' | 'collecting' | 'waiting' | 'sending' | 'reading' | 'closing' | 'closed'

/** Maximum number of calls in one request to a `/v2` server, where each call has the conditions of all earlier ones. */
const V2_CALLS = 32

/**
 * Queues the calls of one server stream and sends them, one request at a time. `nextAction` decides what follows, and
 * `#resume` does it.
 */
export class ServerStream implements OpenStream, TransactionStream {
  readonly http: Http
  readonly connection: StreamConnection
  readonly transaction: TransactionControl
  readonly #queue: StatementQueue
  #phase: Phase = 'idle'
  /** The cursor that has the stream to itself. */
  cursor: Cursor | null = null
  /** Whether it accepts calls. False while it closes (calls in its queue still run) and after it was lost. */
  isOpen = true
  /** The error of the stream, and of the calls in its queue, after it was lost. */
  #lossError: StreamError | null = null
  #lastSql: string | undefined
  /** Whether the last request got no usable response, so that `close` does not wait for another. */
  #isUnresponsive = false
  /** Resolves the pending calls of `close`. */
  #closings: (() => void)[] = []
  /** Ends the pending calls of `waitFor`. */
  #endWaits = (): void => {}
  readonly #ended = new Promise<void>((resolve) => (this.#endWaits = resolve))
  /** Settles after the response to the last request. */
  lastRequest: Promise<void> = Promise.resolve()

  /** @param isTracked whether the client, when it is closed, waits for the call that opens this stream */
  constructor(http: Http, isTracked = false) {
    this.http = http
    this.connection = new StreamConnection(http, this, isTracked)
    this.#queue = new StatementQueue(http, () => this.stopWaiting())
    this.transaction = new TransactionControl(http, this.#queue, this)
  }

  get isIdle(): boolean {
    return this.#phase === 'idle'
  }

  run(
    statements: readonly EncodedStatement[],
    outside: QueuedCall['scope'],
    options: AtomicBatchOptions,
    handle?: HandleCall,
  ): Promise<Results> {
    if (statements.length === 0) return Promise.resolve([])
    const { current } = this.transaction
    const inTransaction = current?.ending === null
    const scope = inTransaction ? 'transaction' : outside
    const isReadOnly = areReadOnly(statements, options)
    const call: NewCall = {
      statements,
      scope,
      prefix: scope === 'atomic' ? batchPrefix(isReadOnly, options) : [],
      isReadOnly,
      canCoalesce: inTransaction,
      options,
      deadline: handle?.deadline ?? this.http.deadline(options.timeoutMs),
      cancelReason: handle?.cancelReason,
    }
    return this.http.events.query(statements, inTransaction ? current.id : null, () => this.enqueue(call))
  }

  /**
   * Closes the stream after the calls in its queue; an open transaction is rolled back. Does not wait for a server that did
   * not respond to the last request. Never rejects.
   */
  close(): Promise<void> {
    // a cursor of a write would be read to its end first
    if (this.cursor?.isReadOnly === false)
      this.markLost('STREAM_CLOSED', 'closed while rows of a write were read')
    this.isOpen = false
    this.stopCursors(() => this.#endError())
    this.#endWaits()
    this.transaction.current?.stopTimer()
    this.stopWaiting()
    if (this.#phase === 'idle') this.#resume()
    return this.#isUnresponsive ? Promise.resolve() : this.#closed()
  }

  async #closed(): Promise<void> {
    if (this.#phase !== 'closed') await new Promise<void>((resolve) => this.#closings.push(resolve))
  }

  /** Ends the stream because the client is closed. */
  async abandon(): Promise<void> {
    this.markLost(this.transaction.current ? 'TRANSACTION_LOST' : 'STREAM_CLOSED', 'the client was closed')
    while (this.#phase !== 'closed') await this.#closed()
  }

  checkOpen(): void {
    if (!this.isOpen) throw this.#endError()
  }

  #endError(): StreamError {
    return this.#lossError ?? new StreamError('STREAM_CLOSED', 'the stream is closed')
  }

  /** Stops cursors. @param owner only those of this handle @returns whether one was open or queued */
  stopCursors(reason: () => StreamError, owner?: object): boolean {
    const isQueued = this.#queue.rejectCursors(reason, owner)
    const cursor = this.cursor
    if (!cursor || (owner && cursor.owner !== owner)) return isQueued
    cursor.stop(false, reason())
    return true
  }

  /**
   * Prevents a deadlock: a loop over rows that awaits a statement queued after the cursor.
   * @param owner only cursors of this handle @throws TypeError while a cursor is open
   */
  checkNoCursor(owner?: object): void {
    const cursor = this.cursor
    if (cursor && !cursor.isStopped && cursor.owner === (owner ?? cursor.owner))
      throw new TypeError('rows are being read on this stream: leave the loop first')
  }

  /** Queues a call. @param onSettled called before the promise settles */
  enqueue(call: NewCall, onSettled?: (isDone: boolean) => void): Promise<Results> {
    this.checkOpen()
    this.checkNoCursor()
    call.options.signal?.throwIfAborted()
    const { current } = this.transaction
    return new Promise((resolve, reject) => {
      const queued: QueuedCall = {
        ...call,
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
      if (this.#phase === 'idle') {
        this.#phase = 'collecting'
        // flush after four microtasks: calls made after an `await` or two still join the request
        void Promise.resolve().then(null).then(null).then(null).then(this.#resume)
      }
      // the request of this tick watches the deadline and signal itself
      else if (this.#phase !== 'collecting') this.#queue.watch(queued, this.#phase === 'waiting')
      if (this.#phase === 'waiting') this.#skipToRollback()
    })
  }

  /** Rejects the calls before a ROLLBACK while the write permit is awaited: the server has not begun the transaction. */
  #skipToRollback(): void {
    const { calls } = this.#queue
    const rollback = calls.find(({ transactionEnd }) => transactionEnd === 'rollback')
    if (!rollback) return
    while (calls[0] && calls[0] !== rollback) this.#queue.remove(calls[0], rolledBack())
    this.transaction.releasePermit()
    this.#resume()
  }

  /** Takes the next action, when nothing is in flight. */
  readonly #resume = (): void => {
    this.#phase = 'idle'
    const { http, isOpen, transaction } = this
    const queue = this.#queue
    const head = queue.findHead()
    const isWithoutPermit = transaction.current !== null && !transaction.permit
    const action = nextAction({ isOpen, head, isWithoutPermit })
    // the server has not begun the transaction: others may write
    if (!head && transaction.permit && queue.hasPendingBegin) transaction.releasePermit()
    if (action === 'idle') transaction.current?.startTimer()
    else if (action === 'acquirePermit') void this.#acquirePermit()
    else if (action === 'send') this.lastRequest = this.#send(queue.take(http.V2Guard ? V2_CALLS : Infinity))
    else if (!head) void this.#close()
    else if (action === 'sendPrefix') this.lastRequest = this.#send([queue.takePrefix(head)])
    else {
      queue.take(1)
      head.resolve([])
      if (head.cursor) {
        this.#phase = 'reading'
        this.cursor = head.cursor
      } else this.#resume()
    }
  }

  async #acquirePermit(): Promise<void> {
    try {
      const acquired = this.transaction.acquirePermit()
      if (acquired) {
        this.#phase = 'waiting'
        this.#queue.watchAll(true)
        this.#skipToRollback()
        // released in the meantime
        if (!(await acquired)) return
        this.#queue.restartTime()
      }
    } catch (error) {
      this.transaction.releasePermit()
      this.#queue.rejectAll(error)
    }
    this.#resume()
  }

  /** Stops waiting for the write permit if no call needs it. */
  stopWaiting(): void {
    if (this.#phase !== 'waiting' || this.#queue.findHead()) return
    this.transaction.releasePermit()
    this.#resume()
  }

  /** Sends calls in one request and settles them. Never rejects. */
  async #send(calls: readonly QueuedCall[]): Promise<void> {
    const { connection, http, transaction } = this
    this.#phase = 'sending'
    const request = new SqlRequest(calls)
    const closes = !this.isOpen && this.#queue.calls.length === 0
    const sentAt = { startedAt: http.clock.now(), continuesStream: connection.baton !== null }
    this.#lastSql = request.lastSql
    const lock = {
      mayHoldLock: request.needsWriteLock || transaction.holdsLock,
      permit: transaction.permit,
    }
    const sent = await connection.send(request, closes, lock)
    try {
      if (sent.isOk) this.#settle(request, sent.value, closes)
      else if (sent.isSent) throw sent.error
      else this.#notSent(calls, sent.error)
    } catch (error) {
      this.fail(calls, error, sentAt)
    }
    this.#resume()
  }

  #settle(request: SqlRequest, [result]: StreamResults, closes: boolean): void {
    const { connection, markLost, transaction } = this
    const context = { intMode: this.http.config.intMode, rowids: connection.rowids, markLost }
    const { again, prefix, ranNothing } = request.settle(result, context)
    if (request.calls[0]?.scope !== 'autocommit') this.http.isExecuteOnly ??= false
    if (again) this.#queue.putBack(again)
    if (prefix) this.#queue.passPrefix(prefix)
    if (!ranNothing && request.needsWriteLock) transaction.current?.gotLock()
    if (!connection.baton && !closes && transaction.current)
      throw new ProtocolError('no baton in the middle of a transaction')
  }

  /** Handles a request that was not sent: rejects the calls that prevented it; the stream is unchanged. */
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

  /** Handles a request without a usable response: the stream and its transaction are lost. */
  fail(calls: readonly QueuedCall[], error: unknown, { startedAt, continuesStream }: SentAt): void {
    const failed = {
      error,
      // Turso's engine may have rejected it at first, and opened a stream on which it was sent again
      continuesStream: continuesStream || this.connection.baton !== null,
      durationMs: this.http.clock.now() - startedAt,
      inTransaction: calls.some(({ scope }) => scope === 'transaction') || this.transaction.current !== null,
      commits: calls[0]?.transactionEnd === 'commit',
    }
    const failure = classifyFailure(failed)
    // unless the server has rejected the baton, the stream can still be closed, which releases the write lock
    if (failure.isUnknownStream) this.connection.setBaton(null)
    else {
      this.#isUnresponsive = true
      this.#endClosings()
    }
    const lost = this.markLost(failure.code, failure.message, error)
    for (const call of calls) call.reject(callError(call, failed, failure, lost))
  }

  /** Closes the stream on the server, if it may exist there. */
  async #close(): Promise<void> {
    const { connection, http, transaction } = this
    this.#phase = 'closing'
    if (connection.mayBeOpen) {
      // by then the server has closed the stream itself: other writers need not wait for a response that may never arrive
      const cancel = http.clock.after(STREAM_IDLE_MS, () => transaction.releasePermit())
      await connection.end()
      cancel()
    }
    this.#phase = 'closed'
    transaction.drop('transaction:rollback')
    transaction.releasePermit()
    this.#endClosings()
  }

  #endClosings(): void {
    for (const resolve of this.#closings.splice(0)) resolve()
  }

  readonly markLost: MarkLost = (code, message, cause) => {
    if (this.#lossError) return this.#lossError
    const { transaction } = this
    const lost = new StreamError(code, message, cause, transaction.current?.elapsedMs, this.#lastSql)
    this.#lossError = lost
    this.isOpen = false
    transaction.drop('transaction:lost', lost)
    this.#queue.rejectAll(lost)
    this.#queue.prefix = []
    this.#endWaits()
    this.cursor?.stop(true, lost)
    this.stopWaiting()
    if (this.#phase === 'idle') this.#resume()
    return lost
  }

  /** Resumes after a cursor. */
  releaseCursor(cursor: Cursor): void {
    if (this.cursor !== cursor) return
    this.cursor = null
    this.#resume()
  }

  /** Waits for an event, such as the end of a savepoint. @throws TransportError; the signal's reason; StreamError */
  async waitFor(
    event: Promise<unknown>,
    what: string,
    deadline: Deadline,
    signal?: AbortSignal,
  ): Promise<void> {
    signal?.throwIfAborted()
    this.checkOpen()
    const onTimeout = (): Error =>
      new TransportError('TIMEOUT', `${what} did not end within ${deadline.timeoutMs} ms`, 'not_applied')
    await this.http.lifetime.until(() => Promise.race([event, this.#ended]), { deadline, signal, onTimeout })
    this.checkOpen()
  }
}
