import { type ControlStatement, PROBE } from '../codec/control.ts'
import type { Http } from '../http/http.ts'
import type { QueuedCall } from '../request/queued-call.ts'
import { queueFull } from '../transport/failure.ts'

/** What waits for the next request of a stream: calls, and control statements that travel in front of one. */
export class StatementQueue {
  readonly #http: Http
  readonly calls: QueuedCall[] = []
  readonly #onGivenUp: () => void
  /** BEGIN and savepoints that wait for a call to travel with. */
  prefix: ControlStatement[] = []
  /** A reading of rows whose control statements are under way. */
  #behindPrefix: QueuedCall | null = null

  /** @param onGivenUp called when a call has left because of its time or its signal */
  constructor(http: Http, onGivenUp: () => void) {
    this.#http = http
    this.#onGivenUp = onGivenUp
  }

  /** Whether a BEGIN waits for a call, so that the server knows of no transaction. */
  get hasPendingBegin(): boolean {
    return this.prefix[0]?.kind === 'begin'
  }

  /** Adds a call, which takes the control statements along. @throws TransportError `QUEUE_FULL` */
  add(call: QueuedCall): void {
    const { queueLimit } = this.#http.config
    if (!call.transactionEnd && this.calls.length >= queueLimit) throw queueFull(queueLimit)
    if (call.scope === 'transaction') {
      call.prefix = this.prefix
      this.prefix = []
    }
    this.calls.push(call)
  }

  /** Puts calls in front that have to be sent once more. */
  putBack(calls: readonly QueuedCall[]): void {
    this.calls.unshift(...calls)
  }

  /** Turns away the calls whose handle is over. @returns the one that is next */
  findHead(): QueuedCall | undefined {
    if (this.calls.length === 0) return undefined
    for (const call of this.calls.slice()) {
      const reason = call.cancelReason?.()
      if (reason) this.remove(call, reason)
    }
    return this.calls[0]
  }

  /** Takes what the next request carries: statements of one transaction, or its end, or one call outside. */
  take(most: number): QueuedCall[] {
    let count = 1
    if (this.calls[0]?.canCoalesce) while (count < most && this.calls[count]?.canCoalesce) count += 1
    const calls = this.calls.splice(0, count)
    for (const call of calls) unwatch(call)
    // those that stay wait for the request of these
    this.watchAll()
    return calls
  }

  /**
   * Takes the control statements of a reading of rows, to travel by themselves: the rows may be given up before the server has
   * begun with them.
   */
  takePrefix(call: QueuedCall): QueuedCall {
    const { prefix } = call
    call.prefix = []
    this.#behindPrefix = call
    this.watchAll()
    // the time is that of the request; given up by its signal, it leaves the queue, and the transaction goes on
    this.watch(call, true)
    const resolve = (): void => {
      this.#behindPrefix = null
    }
    const reject = (error: unknown): void => {
      resolve()
      this.remove(call, error)
    }
    const statements = [PROBE]
    return { ...call, prefix, statements, options: {}, isReadOnly: true, cursor: undefined, resolve, reject }
  }

  /** Gives control statements that did not travel to the next call, from a place in the queue on, or to the next that comes. */
  passPrefix(prefix: readonly ControlStatement[], at = 0): void {
    const next = this.calls.slice(at).find(({ scope }) => scope === 'transaction')
    if (next) next.prefix = [...prefix, ...next.prefix]
    else this.prefix = [...prefix, ...this.prefix]
  }

  /** Turns away the calls that wait; a reading whose control statements are under way has the error of those. */
  rejectAll(error: unknown): void {
    for (const call of this.calls.slice()) if (call !== this.#behindPrefix) this.remove(call, error)
  }

  /** Turns away the readings of rows that wait. @param owner only those of this handle @returns whether there was one */
  rejectCursors(makeError: () => Error, owner?: object): boolean {
    const calls = this.calls.filter(({ cursor }) => cursor && (!owner || cursor.owner === owner))
    for (const call of calls) this.remove(call, makeError())
    return calls.length > 0
  }

  /** Turns a call away, whose control statements travel with the next. */
  remove(call: QueuedCall, reason: unknown): void {
    unwatch(call)
    const at = this.calls.indexOf(call)
    if (at < 0) return
    this.calls.splice(at, 1)
    if (call.scope === 'transaction') this.passPrefix(call.prefix, at)
    call.reject(reason)
  }

  /** Lets the calls that wait go when their time is over, or their signal says so. @param isHeld whether their time has not begun */
  watchAll(isHeld = false): void {
    for (const call of this.calls) if (isHeld || !call.stopWatch) this.watch(call, isHeld)
  }

  /** Begins the time of the calls, after a wait that does not count. */
  restartTime(): void {
    for (const call of this.calls) {
      call.deadline.restart()
      unwatch(call)
    }
  }

  watch(call: QueuedCall, isHeld: boolean): void {
    unwatch(call)
    const { deadline, options } = call
    const { lifetime } = this.#http
    // once the client is closed, what is sent is rejected
    if ((isHeld && !options.signal) || lifetime.isAborted) return
    const waiter = lifetime.wait({
      deadline: isHeld ? undefined : deadline,
      signal: options.signal,
    })
    waiter.promise.catch((reason: unknown) => {
      this.remove(call, reason)
      this.#onGivenUp()
    })
    const stop = (): void => waiter.resolve()
    call.stopWatch = stop
  }
}

function unwatch(call: QueuedCall): void {
  call.stopWatch?.()
  call.stopWatch = undefined
}
