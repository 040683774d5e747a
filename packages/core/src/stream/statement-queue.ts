import { StreamError } from '../base/errors.ts'
import { beginStatement, type ControlStatement, PROBE, ROLLBACK } from '../codec/control.ts'
import type { Http } from '../http/http.ts'
import type { Cursor, QueuedCall } from '../request/queued-call.ts'
import { queueFullError } from '../transport/failure.ts'

/** Returns the error of calls that were queued when their transaction was rolled back. */
export const rolledBackError = (): StreamError =>
  new StreamError('STREAM_CLOSED', 'the transaction was rolled back')

/**
 * Holds the calls of a stream until they are sent, the control statements that precede them, and the cursor that delays them.
 */
export class StatementQueue {
  readonly #http: Http
  readonly calls: QueuedCall[] = []
  /** The cursor that has exclusive use of the stream. */
  cursor: Cursor | null = null
  readonly #onAbort: () => void
  /** Control statements, such as BEGIN and SAVEPOINT, that are sent with the next call. */
  prefix: ControlStatement[] = []
  /** A cursor whose control statements are in flight. */
  #awaitingPrefix: QueuedCall | null = null

  /** @param onAbort called after a call was removed because of its deadline or its signal */
  constructor(http: Http, onAbort: () => void) {
    this.#http = http
    this.#onAbort = onAbort
  }

  /** Whether BEGIN has not been sent yet; if so, the server has no transaction. */
  get hasPendingBegin(): boolean {
    return this.prefix[0]?.kind === 'begin'
  }

  /** Adds a call, together with the pending control statements. @throws TypeError while a cursor is open; TransportError `QUEUE_FULL` */
  add(call: QueuedCall): void {
    this.checkNoCursor()
    const { queueLimit } = this.#http.config
    if (!call.transactionEnd && this.calls.length >= queueLimit) throw queueFullError(queueLimit)
    if (call.scope === 'transaction') {
      call.prefix = this.prefix
      this.prefix = []
    }
    this.calls.push(call)
  }

  /** Rejects the calls before a queued ROLLBACK, if any; for a transaction that the server has not begun. */
  skipToRollback(): void {
    const end = this.calls.findIndex(({ transactionEnd }) => transactionEnd === 'rollback')
    for (const call of this.calls.slice(0, Math.max(0, end))) this.remove(call, rolledBackError())
  }

  /** Rejects the calls whose handle has ended. @returns the next call */
  findHead(): QueuedCall | undefined {
    for (const call of this.calls.slice()) {
      const reason = call.cancelReason?.()
      if (reason) this.remove(call, reason)
    }
    return this.calls[0]
  }

  /** Removes the calls of the next request: those of one transaction that can be coalesced, or a single one. */
  take(limit: number): QueuedCall[] {
    let count = 1
    if (this.calls[0]?.canCoalesce) while (count < limit && this.calls[count]?.canCoalesce) count += 1
    const calls = this.calls.splice(0, count)
    for (const call of calls) call.stopWatch?.()
    // the others wait for this request
    this.watchAll()
    return calls
  }

  /**
   * Takes the control statements of a cursor, to be sent in a separate request: the cursor may be aborted before it opens. The server
   * also parses the cursor's statement there.
   */
  takePrefix(call: QueuedCall): QueuedCall {
    const { prefix, statements } = call
    call.prefix = []
    call.isUnparsed = false
    this.#awaitingPrefix = call
    this.watchAll()
    // The request keeps the deadline. If the cursor's signal is aborted, the cursor leaves the queue and the transaction continues.
    this.watch(call, true)
    const resolve = (): void => {
      this.#awaitingPrefix = null
    }
    const reject = (error: unknown): void => {
      resolve()
      this.remove(call, error)
    }
    // a server that ignores conditions runs the statement: outside of a transaction, in one that is rolled back
    const [scope, before, last] =
      call.scope === 'transaction'
        ? (['transaction', prefix, PROBE] as const)
        : (['chain', [beginStatement('deferred')], ROLLBACK] as const)
    return {
      ...call,
      scope,
      prefix: before,
      statements: [last],
      parsedOnly: statements[0]?.sql,
      options: {},
      isReadOnly: true,
      cursor: undefined,
      resolve,
      reject,
    }
  }

  /** Passes unsent control statements to the first call of a transaction at or after `position`, or to the next one added. */
  passPrefix(prefix: readonly ControlStatement[], position = 0): void {
    const next = this.calls.slice(position).find(({ scope }) => scope === 'transaction')
    if (next) next.prefix = [...prefix, ...next.prefix]
    else this.prefix = [...prefix, ...this.prefix]
  }

  /** Rejects the queued calls, except a cursor whose control statements are in flight, which is rejected with their error. */
  rejectAll(error: unknown): void {
    for (const call of this.calls.slice()) if (call !== this.#awaitingPrefix) this.remove(call, error)
  }

  /** Stops cursors. @param owner only those of this handle @returns whether one was open or queued */
  stopCursors(makeError: () => StreamError, owner?: object): boolean {
    const calls = this.calls.filter(({ cursor }) => cursor && (!owner || cursor.owner === owner))
    for (const call of calls) this.remove(call, makeError())
    const { cursor } = this
    if (!cursor || (owner && cursor.owner !== owner)) return calls.length > 0
    cursor.stop(false, makeError())
    return true
  }

  /**
   * Prevents a deadlock, in which a loop over rows awaits a statement queued after the cursor.
   * @param owner only cursors of this handle @throws TypeError while a cursor is open
   */
  checkNoCursor(owner?: object): void {
    const { cursor } = this
    if (cursor && !cursor.isStopped && (!owner || cursor.owner === owner))
      throw new TypeError('rows are being read on this stream: leave the loop first')
  }

  /** Rejects a call; its control statements are sent with the next one. */
  remove(call: QueuedCall, reason: unknown): void {
    call.stopWatch?.()
    const position = this.calls.indexOf(call)
    if (position < 0) return
    this.calls.splice(position, 1)
    if (call.scope === 'transaction') this.passPrefix(call.prefix, position)
    call.reject(reason)
  }

  /** Watches the deadlines and signals of queued calls. @param isPaused whether their time limits have not started */
  watchAll(isPaused = false): void {
    for (const call of this.calls) if (!call.stopWatch) this.watch(call, isPaused)
  }

  /** Restarts the deadlines of the calls, before and after a wait that does not count. */
  restartDeadlines(): void {
    for (const call of this.calls) {
      call.deadline.restart()
      call.stopWatch?.()
    }
  }

  watch(call: QueuedCall, isPaused = false): void {
    call.stopWatch?.()
    const { deadline, options } = call
    const { lifetime } = this.#http
    // after the client was closed, every request is rejected anyway
    if ((isPaused && !options.signal) || lifetime.isAborted) return
    const waiter = lifetime.wait({
      deadline: isPaused ? undefined : deadline,
      signal: options.signal,
    })
    waiter.promise.catch((reason: unknown) => {
      this.remove(call, reason)
      this.#onAbort()
    })
    const stop = (): void => {
      call.stopWatch = undefined
      waiter.resolve()
    }
    call.stopWatch = stop
  }
}
