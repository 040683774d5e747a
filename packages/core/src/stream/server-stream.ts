import { copyError, ProtocolError, StreamError } from '../base/errors.ts'
import { STREAM_IDLE_MS } from '../base/limits.ts'
import type { Http } from '../http/http.ts'
import type { OpenStream } from '../http/lifetime.ts'
import type { Cursor, QueuedCall } from '../request/queued-call.ts'
import { type MarkLost, SqlRequest } from '../request/sql-request.ts'
import { timeoutError } from '../transport/failure.ts'
import { callError, classifyFailure } from './classify-failure.ts'
import { nextAction } from './next-action.ts'
import type { StreamResults } from './sending.ts'
import { StatementQueue } from './statement-queue.ts'
import { StreamConnection } from './stream-connection.ts'
import { TransactionControl, type TransactionStream } from './transaction-control.ts'

/**
 * The stream is idle (it may wait for a write permit), collects the calls of one tick, waits for a response, lets a cursor read, is
 * being closed on the server, or is closed.
 */
type Phase = 'idle' | 'collecting' | 'sending' | 'reading' | 'closing' | 'closed'

/** Maximum number of calls in one request to a `/v2` server, where each call has the conditions of all earlier ones. */
const MAX_V2_CALLS = 32

/**
 * Sends the queued calls of one server stream, one request at a time. `nextAction` chooses the next action, and `#proceed` takes it.
 */
export class ServerStream implements OpenStream, TransactionStream {
  readonly http: Http
  readonly connection: StreamConnection
  readonly transaction: TransactionControl
  readonly queue: StatementQueue
  #phase: Phase = 'idle'
  /** Whether the stream accepts calls. False while it is closing (queued calls still run) and after it was lost. */
  isOpen = true
  /** The error of the stream, and of the calls in its queue, after it was lost. */
  #lossError: StreamError | null = null
  #lastSql: string | undefined
  /** Whether the last request got no usable response; if so, `close` does not wait for another. */
  #isUnresponsive = false
  /** Resolves the pending calls to `close`. */
  #closeResolvers: (() => void)[] = []
  #resolveEnded!: () => void
  /** Settles when the stream no longer accepts calls. */
  readonly ended = new Promise<void>((resolve) => (this.#resolveEnded = resolve))
  /** Settles after the response to the last request. */
  lastRequest: Promise<void> = Promise.resolve()

  /** @param isTracked whether the client, when it is closed, waits for the call that opens this stream */
  constructor(http: Http, isTracked = false) {
    this.http = http
    this.connection = new StreamConnection(http, this, isTracked)
    this.queue = new StatementQueue(http, () => this.resume())
    this.transaction = new TransactionControl(http, this.queue, this)
  }

  get isIdle(): boolean {
    return this.#phase === 'idle'
  }

  /**
   * Closes the stream after the calls in its queue; an open transaction is rolled back. Does not wait for a server that did
   * not respond to the last request. Never rejects.
   */
  close(): Promise<void> {
    // otherwise, the cursor of a write would first be read to its end
    if (this.queue.cursor?.isReadOnly === false)
      this.markLost('STREAM_CLOSED', 'closed while rows of a write were read')
    this.isOpen = false
    this.queue.stopCursors(() => this.#endError())
    this.#resolveEnded()
    this.resume()
    if (this.#isUnresponsive || this.#phase === 'closed') return Promise.resolve()
    return new Promise((resolve) => this.#closeResolvers.push(resolve))
  }

  /** Closes the stream because the client is closed. */
  async abandon(): Promise<void> {
    this.markLost(this.transaction.current ? 'TRANSACTION_LOST' : 'STREAM_CLOSED', 'the client was closed')
    while (this.#phase !== 'closed') await new Promise<void>((resolve) => this.#closeResolvers.push(resolve))
  }

  checkOpen(): void {
    if (!this.isOpen) throw this.#endError()
  }

  #endError(): StreamError {
    return copyError(this.#lossError) ?? new StreamError('STREAM_CLOSED', 'the stream is closed')
  }

  /** Queues a call. @throws StreamError after the stream was closed or lost; the signal's reason; TypeError while a cursor is open */
  enqueue(call: QueuedCall): void {
    this.checkOpen()
    call.options.signal?.throwIfAborted()
    this.queue.add(call)
    if (this.#phase === 'idle') {
      this.#phase = 'collecting'
      // flush after four microtasks: calls made after an `await` or two still join the request
      void Promise.resolve().then(null).then(null).then(null).then(this.#proceed)
    }
    // the request of this tick watches the deadline and signal of its calls
    else if (this.#phase !== 'collecting') this.queue.watch(call)
  }

  /** Continues with the next call, if nothing is in flight. */
  resume(): void {
    if (this.#phase === 'idle') this.#proceed()
  }

  /** Takes the next action when nothing is in flight. */
  readonly #proceed = (): void => {
    this.#phase = 'idle'
    const { http, isOpen, queue, transaction } = this
    if (transaction.queuedPermit) queue.skipToRollback()
    const head = queue.findHead()
    const state = {
      isOpen,
      head,
      isContinued: this.connection.baton !== null && http.hasV3,
      isWithoutPermit: transaction.current !== null && !transaction.permit,
    }
    let action = nextAction(state)
    if (action === 'acquirePermit') {
      if (!transaction.acquirePermit()) return
      action = nextAction({ ...state, isWithoutPermit: false })
    }
    // the server has not begun the transaction, so other transactions may write
    else if (transaction.queuedPermit || (!head && transaction.permit && queue.hasPendingBegin))
      transaction.releasePermit()
    if (action === 'idle') transaction.current?.startTimer()
    else if (action === 'send')
      this.lastRequest = this.#send(queue.take(http.V2Guard ? MAX_V2_CALLS : Infinity))
    else if (!head) void this.#close()
    else if (action === 'sendPrefix') this.lastRequest = this.#send([queue.takePrefix(head)])
    else {
      queue.take(1)
      head.resolve([])
      if (head.cursor) {
        this.#phase = 'reading'
        queue.cursor = head.cursor
      } else this.#proceed()
    }
  }

  /** Sends calls in one request and settles them. Never rejects. */
  async #send(calls: readonly QueuedCall[]): Promise<void> {
    const { connection, transaction } = this
    this.#phase = 'sending'
    const request = new SqlRequest(calls)
    const closesStream = !this.isOpen && this.queue.calls.length === 0
    this.#lastSql = calls.at(-1)?.statements.at(-1)?.sql
    const lock = {
      mayHoldLock: request.needsWriteLock || transaction.holdsLock,
      permit: transaction.permit,
    }
    const result = await connection.send(request, closesStream, lock)
    try {
      if (result.isOk) this.#settle(request, result.value, closesStream)
      else if (result.isSent) throw result.error
      else this.#handleNotSent(calls, result.error)
    } catch (error) {
      this.fail(calls, error)
    }
    this.#proceed()
  }

  #settle(request: SqlRequest, [result]: StreamResults, closesStream: boolean): void {
    const { connection, markLost, transaction } = this
    const context = { intMode: this.http.config.intMode, rowids: connection.rowids, markLost }
    const { retry, prefix, ranNothing, evaluatesConditions } = request.settle(result, context)
    if (evaluatesConditions) this.http.evaluatesConditions = true
    if (request.calls[0]?.scope !== 'autocommit') this.http.isExecuteOnly ??= false
    if (retry) this.queue.calls.unshift(...retry)
    if (prefix) this.queue.passPrefix(prefix)
    if (!ranNothing && request.needsWriteLock) transaction.current?.recordLock()
    if (!connection.baton && !closesStream && transaction.current)
      throw new ProtocolError('no baton in the middle of a transaction')
  }

  /** Handles a request that was not sent: rejects the calls that prevented it; the stream is unchanged. */
  #handleNotSent(calls: readonly QueuedCall[], error: unknown): void {
    const { address, baton } = this.connection
    if (!baton) this.transaction.releasePermit()
    this.queue.calls.unshift(...calls)
    const endedCalls = calls.filter(
      ({ options, deadline }) => options.signal?.aborted || deadline.remainingMs <= 0,
    )
    for (const call of endedCalls.length > 0 ? endedCalls : calls) {
      const { options, deadline } = call
      const reason =
        deadline.remainingMs <= 0 ? timeoutError(deadline.timeoutMs, address.origin, false) : error
      this.queue.remove(call, options.signal?.aborted ? options.signal.reason : reason)
    }
  }

  /** Handles a request without a usable response: the stream and its transaction are lost. */
  fail(calls: readonly QueuedCall[], error: unknown): void {
    const { sentAt, continuesStream } = this.connection
    const failedRequest = {
      error,
      continuesStream,
      durationMs: this.http.clock.now() - sentAt,
      inTransaction: calls.some(({ scope }) => scope === 'transaction') || this.transaction.current !== null,
      commits: calls[0]?.transactionEnd === 'commit',
    }
    const failure = classifyFailure(failedRequest)
    // unless the server has rejected the baton, the stream can still be closed, which releases the write lock
    if (failure.isUnknownStream) this.connection.setBaton(null)
    else {
      this.#isUnresponsive = true
      this.#resolveClose()
    }
    const streamError = this.markLost(failure.code, failure.message, error)
    for (const call of calls) call.reject(callError(call, failedRequest, failure, streamError))
  }

  /** Closes the stream on the server, if it may exist there. */
  async #close(): Promise<void> {
    const { connection, http, transaction } = this
    this.#phase = 'closing'
    if (connection.mayBeOpen) {
      // after this time the server closes the stream, so other writers need not wait for a response that may never arrive
      const cancel = http.clock.after(STREAM_IDLE_MS, () => transaction.releasePermit())
      await connection.close()
      cancel()
    }
    this.#phase = 'closed'
    transaction.drop('transaction:rollback')
    this.#resolveClose()
  }

  #resolveClose(): void {
    for (const resolve of this.#closeResolvers.splice(0)) resolve()
  }

  readonly markLost: MarkLost = (code, message, cause) => {
    if (this.#lossError) return this.#lossError
    const { transaction } = this
    const { current } = transaction
    const hint = code === 'TRANSACTION_EXPIRED' ? (current?.lockHint ?? '') : ''
    const streamError = new StreamError(code, message + hint, cause, current?.elapsedMs, this.#lastSql)
    this.#lossError = streamError
    this.isOpen = false
    transaction.drop('transaction:lost', streamError)
    this.queue.rejectAll(streamError)
    this.queue.prefix = []
    this.#resolveEnded()
    this.queue.cursor?.stop(true, streamError)
    this.resume()
    return streamError
  }

  /** Resumes after a cursor. */
  releaseCursor(cursor: Cursor): void {
    if (this.queue.cursor !== cursor) return
    this.queue.cursor = null
    this.#proceed()
  }
}
