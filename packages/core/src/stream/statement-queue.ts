import { transactionControl } from '../codec/statement.ts'
import type { ResolvedConfig } from '../config.ts'
import { queueFull, timeoutError } from '../transport/failure.ts'
import type { Entry } from './sql-request.ts'

/** What waits for the next request of a stream: calls, and control statements that travel in front of one. */
export class StatementQueue {
  readonly #config: ResolvedConfig
  readonly #entries: Entry[] = []
  /** BEGIN and savepoints that wait for a call to travel with. */
  #lead: readonly string[] = []

  constructor(config: ResolvedConfig) {
    this.#config = config
  }

  get length(): number {
    return this.#entries.length
  }

  get hasLead(): boolean {
    return this.#lead.length > 0
  }

  /** Whether a BEGIN waits, so that the server knows of no transaction. */
  get isToBegin(): boolean {
    return transactionControl(this.#lead[0] ?? '') === 'begin'
  }

  /** Lets a control statement travel with the next call. */
  addLead(sql: string): void {
    this.#lead = [...this.#lead, sql]
  }

  dropLead(): void {
    this.#lead = []
  }

  savepoint(name: string): void {
    this.addLead(`SAVEPOINT ${quote(name)}`)
  }

  rollbackTo(name: string): void {
    if (!this.#hasJustMarked(name)) this.addLead(`ROLLBACK TO ${quote(name)}`)
  }

  release(name: string): void {
    if (this.#hasJustMarked(name)) this.#lead = this.#lead.slice(0, -1)
    else this.addLead(`RELEASE ${quote(name)}`)
  }

  /** Whether nothing happened since a savepoint was asked for, so that neither it nor its end has to travel. */
  #hasJustMarked(name: string): boolean {
    return this.#lead.at(-1) === `SAVEPOINT ${quote(name)}`
  }

  /** Adds a call, which takes the control statements along. @param waits whether it is not sent at once @throws TransportError */
  add(entry: Entry, waits: boolean): void {
    const isEnd = entry.place === 'inside' && !entry.shares
    if (!isEnd && this.length >= this.#config.queueLimit) throw queueFull(this.#config.queueLimit)
    if (entry.place === 'inside') {
      entry.lead = this.#lead
      this.dropLead()
    }
    this.#entries.push(entry)
    this.#watch(entry, waits)
  }

  /** Puts calls in front that have to be sent once more. */
  putBack(entries: readonly Entry[]): void {
    this.#entries.unshift(...entries)
    for (const entry of entries) this.#watch(entry, true)
  }

  /** Takes what the next request carries: statements of one transaction, or its end, or one call outside. */
  take(most: number): Entry[] {
    let count = 1
    while (count < most && this.#entries[0]?.shares && this.#entries[count]?.shares) count += 1
    const entries = this.#entries.splice(0, count)
    for (const entry of entries) entry.release?.()
    return entries
  }

  /** Gives control statements that did not travel to whatever comes next, from a place in the queue on. */
  passLead(lead: readonly string[], at = 0): void {
    const next = this.#entries[at]
    if (next) next.lead = [...lead, ...next.lead]
    else this.#lead = [...lead, ...this.#lead]
  }

  /** Turns away all that wait. */
  rejectAll(error: Error): void {
    for (const entry of this.#entries.splice(0)) {
      entry.release?.()
      entry.reject(error)
    }
  }

  /** Lets a call that still waits go when its time is over, or its signal says so. */
  #watch(entry: Entry, waits: boolean): void {
    const { requestTimeoutMs, address } = this.#config
    const { signal, timeoutMs = requestTimeoutMs } = entry.options
    const leave = (reason: unknown): void => {
      const at = this.#entries.indexOf(entry)
      this.#entries.splice(at, 1)
      entry.release?.()
      this.passLead(entry.lead, at)
      entry.reject(reason)
    }
    const abort = (): void => leave(signal?.reason)
    const late = (): void => leave(timeoutError(timeoutMs, address.origin, false))
    const timer = waits && timeoutMs !== Infinity ? setTimeout(late, timeoutMs) : undefined
    signal?.addEventListener('abort', abort)
    entry.release = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
  }
}

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`
