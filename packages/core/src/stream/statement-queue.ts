import { transactionControl } from '../codec/statement.ts'
import type { Http } from '../http/http.ts'
import { Waiter } from '../http/waiter.ts'
import { queueFull, timeoutError } from '../transport/failure.ts'
import type { QueuedCall } from './queued-call.ts'

/** What waits for the next request of a stream: calls, and control statements that travel in front of one. */
export class StatementQueue {
  readonly #http: Http
  readonly #calls: QueuedCall[] = []
  /** BEGIN and savepoints that wait for a call to travel with. */
  #prefix: readonly string[] = []
  /** The calls wait for the write lock: their time has not begun. */
  isHeld = false

  constructor(http: Http) {
    this.#http = http
  }

  get length(): number {
    return this.#calls.length
  }

  get head(): QueuedCall | undefined {
    return this.#calls[0]
  }

  /** Whether a BEGIN waits, so that the server knows of no transaction. */
  get isToBegin(): boolean {
    return transactionControl(this.#prefix[0] ?? '') === 'begin'
  }

  /** Lets a control statement travel with the next call. */
  addPrefix(sql: string): void {
    this.#prefix = [...this.#prefix, sql]
  }

  dropPrefix(): void {
    this.#prefix = []
  }

  savepoint(name: string): void {
    this.addPrefix(`SAVEPOINT ${quote(name)}`)
  }

  rollbackTo(name: string): void {
    if (!this.#hasJustMarked(name)) this.addPrefix(`ROLLBACK TO ${quote(name)}`)
  }

  release(name: string): void {
    if (this.#hasJustMarked(name)) this.#prefix = this.#prefix.slice(0, -1)
    else this.addPrefix(`RELEASE ${quote(name)}`)
  }

  /** Whether nothing happened since a savepoint was asked for, so that neither it nor its end has to travel. */
  #hasJustMarked(name: string): boolean {
    return this.#prefix.at(-1) === `SAVEPOINT ${quote(name)}`
  }

  /** Adds a call, which takes the control statements along. @throws TransportError `QUEUE_FULL` */
  add(call: QueuedCall): void {
    const { queueLimit } = this.#http.config
    if (!call.ends && this.length >= queueLimit) throw queueFull(queueLimit)
    if (call.scope === 'inside') {
      call.prefix = this.#prefix
      this.dropPrefix()
    }
    this.#calls.push(call)
  }

  /** Puts calls in front that have to be sent once more. */
  putBack(calls: readonly QueuedCall[]): void {
    this.#calls.unshift(...calls)
    for (const call of calls) this.watch(call)
  }

  /** Takes what the next request carries: statements of one transaction, or its end, or one call outside. */
  take(most: number): QueuedCall[] {
    for (const call of this.#calls.slice()) {
      const refusal = call.refusal?.()
      if (refusal) this.remove(call, refusal)
    }
    let count = 1
    while (count < most && this.head?.canCoalesce && this.#calls[count]?.canCoalesce) count += 1
    const calls = this.#calls.splice(0, count)
    for (const call of calls) this.#unwatch(call)
    // those that stay wait for the request of these
    for (const call of this.#calls) if (!call.stopWatch) this.watch(call)
    return calls
  }

  /** Gives control statements that did not travel to whatever comes next, from a place in the queue on. */
  passPrefix(prefix: readonly string[], at = 0): void {
    const next = this.#calls.slice(at).find(({ scope }) => scope === 'inside')
    if (next) next.prefix = [...prefix, ...next.prefix]
    else this.#prefix = [...prefix, ...this.#prefix]
  }

  /** Turns away all that wait. */
  rejectAll(error: unknown): void {
    for (const call of this.#calls.slice()) this.remove(call, error)
  }

  /** Turns away the readings of rows that wait. @param owner only those of this handle @returns whether there was one */
  rejectCursors(error: unknown, owner?: object): boolean {
    const cursors = this.#calls.filter((call) => call.lend && (!owner || call.owner === owner))
    for (const call of cursors) this.remove(call, error)
    return cursors.length > 0
  }

  /** Stops the time of the calls, and of those that come. */
  hold(): void {
    this.isHeld = true
    for (const call of this.#calls) this.watch(call)
  }

  /** Begins the time of the calls. @param isSending whether they wait for a request that is under way, too */
  letGo(isSending: boolean): void {
    this.isHeld = false
    for (const call of this.#calls) {
      call.deadline.restart()
      if (isSending) this.watch(call)
      else this.#unwatch(call)
    }
  }

  /** Turns a call away, whose control statements travel with the next. */
  remove(call: QueuedCall, reason: unknown): void {
    this.#unwatch(call)
    const at = this.#calls.indexOf(call)
    if (at < 0) return
    this.#calls.splice(at, 1)
    if (call.scope === 'inside') this.passPrefix(call.prefix, at)
    call.reject(reason)
  }

  /** Lets a call that still waits go when its time is over, or its signal says so. */
  watch(call: QueuedCall): void {
    this.#unwatch(call)
    const { deadline, options } = call
    if (this.isHeld && !options.signal) return
    const { clock, config } = this.#http
    const waiter = new Waiter(clock, {
      ms: this.isHeld ? Infinity : deadline.leftMs,
      signal: options.signal,
      late: () => timeoutError(deadline.timeoutMs, config.address.origin, false),
    })
    waiter.promise.catch((reason: unknown) => this.remove(call, reason))
    call.stopWatch = () => waiter.resolve()
  }

  #unwatch(call: QueuedCall): void {
    call.stopWatch?.()
    call.stopWatch = undefined
  }
}

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`
