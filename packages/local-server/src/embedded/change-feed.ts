import { Readable } from 'node:stream'
import type { TableChanges } from './protocol/worker-messages.ts'

/** In the order in which the wire has them. */
export const ACTIONS = ['unknown', 'delete', 'insert', 'update'] as const
export type Action = (typeof ACTIONS)[number]

/** What a client listens to. */
export interface Subscription {
  readonly table: string
  /** Transactions that do one of these are reported, with all they do. */
  readonly actions: ReadonlySet<Action>
}

const KEEP_ALIVE_MS = 15_000
/** A listener that is further behind loses the oldest. */
const MAX_PENDING = 1_024
const LOST = 'event:error\ndata:some changes were lost\n\n'

/** The listeners of one database: server-sent events of what is committed. */
export class ChangeFeed {
  readonly #listeners = new Set<Listener>()
  readonly #onWatched: (isWatched: boolean) => void

  /** `onWatched` is called with the first listener, and when the last one has gone. */
  constructor(onWatched: (isWatched: boolean) => void) {
    this.#onWatched = onWatched
  }

  get isWatched(): boolean {
    return this.#listeners.size > 0
  }

  /** A stream of events; ends when it is destroyed, or the database goes. */
  listen(subscription: Subscription): Readable {
    const listener = new Listener(subscription)
    this.#listeners.add(listener)
    if (this.#listeners.size === 1) this.#onWatched(true)
    listener.once('close', () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#onWatched(false)
    })
    return listener
  }

  /** Reports a committed transaction. */
  publish(changes: readonly TableChanges[]): void {
    for (const listener of this.#listeners) {
      for (const change of changes) listener.report(change)
    }
  }

  /** The engine has ended in the middle of something: what it committed last may not have been reported. */
  reportLoss(): void {
    for (const listener of this.#listeners) listener.reportLoss()
  }

  /** Ends the listeners there are: the database is gone, or their tokens are. */
  end(): void {
    for (const listener of this.#listeners) listener.end()
  }
}

class Listener extends Readable {
  readonly #subscription: Subscription
  readonly #pending: string[] = []
  readonly #keepAlive: NodeJS.Timeout
  #isReading = false
  #hasLost = false
  #isOver = false

  constructor(subscription: Subscription) {
    super({ highWaterMark: 1 })
    this.#subscription = subscription
    this.#keepAlive = setInterval(() => this.#sendKeepAlive(), KEEP_ALIVE_MS)
  }

  report({ table, ...counts }: TableChanges): void {
    const { table: wanted, actions } = this.#subscription
    if (table !== wanted || !ACTIONS.some((action) => counts[action] > 0 && actions.has(action))) return
    const members = ACTIONS.filter((action) => counts[action] > 0).map(
      (action) => `"${action}":${counts[action]}`,
    )
    this.#pending.push(`event:changes\ndata:{${members.join()}}\n\n`)
    if (this.#pending.length > MAX_PENDING) {
      this.#pending.shift()
      this.#hasLost = true
    }
    this.#handOver()
  }

  reportLoss(): void {
    this.#hasLost = true
    this.#handOver()
  }

  /** A slow reader still gets what was handed over before. */
  end(): void {
    if (this.#isOver) return
    this.push(null)
    this.#isOver = true
    clearInterval(this.#keepAlive)
  }

  override _read(): void {
    this.#isReading = true
    this.#handOver()
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    clearInterval(this.#keepAlive)
    callback(error)
  }

  #sendKeepAlive(): void {
    if (!this.#isReading) return
    this.#isReading = this.push(':keep-alive\n\n')
  }

  #handOver(): void {
    while (this.#isReading && !this.#isOver) {
      const text = this.#hasLost ? LOST : this.#pending.shift()
      if (text === undefined) return
      this.#hasLost = false
      this.#keepAlive.refresh()
      this.#isReading = this.push(text)
    }
  }
}
