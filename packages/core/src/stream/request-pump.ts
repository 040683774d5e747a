import { InsertedRowids } from '../codec/inserted-rowids.ts'
import { ProtocolError } from '../errors.ts'
import { callError, classifyFailure } from './classify-failure.ts'
import type { QueuedCall } from './queued-call.ts'
import { type MarkLost, SqlRequest } from './sql-request.ts'
import type { StatementQueue } from './statement-queue.ts'
import type { StreamConnection } from './stream-connection.ts'
import type { StreamTransaction } from './stream-transaction.ts'

/** What the pump asks the stream, and tells it. */
export interface PumpHost {
  readonly connection: StreamConnection
  readonly queue: StatementQueue
  /** Whether more may come after what is queued. */
  readonly isOpen: boolean
  /** Whether what is queued has to wait for the write lock. */
  readonly isBlocked: boolean
  readonly current: StreamTransaction | null
  readonly markLost: MarkLost
  /** Control statements of a request of which nothing ran. */
  passPrefix(prefix: readonly string[]): void
  /** The stream is closed, as far as it can be. */
  closed(): void
}

/** Calls in one request where each carries the conditions of all before it. */
const V2_CALLS = 32

/** Sends what is queued, one request at a time. It is idle, sending, or rows are being read. */
export class RequestPump {
  readonly #host: PumpHost
  readonly #rowids = new InsertedRowids()
  /** Settles when it is idle again; null when it is. */
  #busy: Promise<void> | null = null
  /** Settles when the request that is under way is answered; null when none is. The reading of rows is none. */
  sending: Promise<void> | null = null
  /** Whether what is added now has to wait: it is past the tick in which its next request gathers. */
  isSending = false

  constructor(host: PumpHost) {
    this.#host = host
  }

  get busy(): Promise<void> | null {
    return this.#busy
  }

  /** Sends all there is. Settles when that is done. */
  run(): Promise<void> {
    this.#busy ??= this.#drain()
    return this.#busy
  }

  async #drain(): Promise<void> {
    // what is issued in the same tick leaves together
    await Promise.resolve()
    this.isSending = true
    while (this.#host.queue.length > 0 && !this.#host.isBlocked) {
      const calls = this.#host.queue.take(this.#host.connection.isV3 ? Infinity : V2_CALLS)
      const [first] = calls
      if (first === undefined) break
      if (first.lend) await new Promise<void>(first.lend)
      else {
        this.sending = this.send(calls, !this.#host.isOpen && this.#host.queue.length === 0)
        await this.sending
        this.sending = null
      }
    }
    if (!this.#host.isOpen && this.#host.queue.length === 0) {
      // also when closing went wrong together with something else
      await this.#host.connection.end()
      this.#host.closed()
    }
    this.#busy = null
    this.isSending = false
  }

  /** Sends calls, the end of the stream with them when told so, and settles them. Never rejects. */
  async send(calls: readonly QueuedCall[], close: boolean): Promise<void> {
    const connection = this.#host.connection
    const { http } = connection
    const transaction = this.#host.current
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
      if (!connection.baton && !close && this.#host.current)
        throw new ProtocolError('no baton in the middle of a transaction')
    } catch (error) {
      if (connection.progress.isSent) this.fail(calls, error, { continuesStream, started })
      else this.#notSent(calls, error)
    }
  }

  #settle(request: SqlRequest, answer: Parameters<SqlRequest['settle']>[0], writes: boolean): void {
    const { intMode } = this.#host.connection.http.config
    const { again, prefix } = request.settle(answer, {
      intMode,
      rowids: this.#rowids,
      markLost: this.#host.markLost,
    })
    if (again) this.#host.queue.putBack(again)
    if (prefix) this.#host.passPrefix(prefix)
    if (this.#host.isOpen) this.#host.current?.answered(!again && !prefix && writes)
  }

  /** The request never left: those of its calls that are to blame go, and the stream is as it was. */
  #notSent(calls: readonly QueuedCall[], error: unknown): void {
    const transaction = this.#host.current
    if (!this.#host.connection.baton) transaction?.endTurn()
    else if (this.#host.isOpen) transaction?.clock.resume(false)
    this.#host.queue.putBack(calls)
    const over = calls.filter(({ options, deadline }) => options.signal?.aborted || deadline.leftMs <= 0)
    for (const call of over.length > 0 ? over : calls)
      this.#host.queue.remove(call, call.options.signal?.aborted ? call.options.signal.reason : error)
  }

  /** A request got no usable answer: the stream is gone, and the transaction with it. */
  fail(
    calls: readonly QueuedCall[],
    error: unknown,
    { continuesStream = true, started = 0 }: { continuesStream?: boolean; started?: number } = {},
  ): void {
    const connection = this.#host.connection
    const failed = {
      error,
      continuesStream,
      durationMs: connection.http.clock.now() - started,
      inTransaction: calls.some(({ scope }) => scope === 'inside') || this.#host.current !== null,
      commits: calls[0]?.ends === 'commit',
    }
    const failure = classifyFailure(failed)
    // a baton that the server has not refused may still close the stream, and free the write lock
    if (failure.isUnknownStream) connection.baton = null
    connection.isBroken = !failure.isUnknownStream
    const lost = this.#host.markLost(failure.code, failure.message, error)
    for (const call of calls) {
      const { signal } = call.options
      const isGivenUp = signal?.aborted === true && error === signal.reason
      const isRead = new SqlRequest([call]).isRead
      const known = { scope: call.scope, commits: call.ends === 'commit', isRead, isGivenUp }
      call.reject(callError(known, failed, failure, lost))
    }
  }
}
