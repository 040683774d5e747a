import { Readable } from 'node:stream'
import type { TableChanges } from '@batonsql/embedded-engine'

/** The kinds of changes, in the order of the wire format. */
export const ACTIONS = ['unknown', 'delete', 'insert', 'update'] as const
export type Action = (typeof ACTIONS)[number]

/** The changes that a client subscribes to. */
export interface Subscription {
  /** Name of the table as it was created: unlike in SQL, its case matters. */
  readonly table: string
  /** Transactions with one of these actions are reported completely. */
  readonly actions: ReadonlySet<Action>
}

/** How long a stream may be without an event before a comment is sent to keep the connection open. */
const KEEP_ALIVE_MS = 15_000
/** Maximum number of pending events of a listener; if there are more, the oldest are dropped. */
const MAX_PENDING = 1_024
const LOSS_EVENT = 'event:error\ndata:some changes were lost\n\n'

/** Sends committed changes of one database to its listeners as server-sent events. */
export class ChangeFeed {
  readonly #listeners = new Set<Listener>()
  readonly #onWatched: (isWatched: boolean) => void

  /** @param onWatched called when the first listener connects, and when the last one disconnects */
  constructor(onWatched: (isWatched: boolean) => void) {
    this.#onWatched = onWatched
  }

  get isWatched(): boolean {
    return this.#listeners.size > 0
  }

  /** Returns a stream of events. It remains open until it is destroyed, or `end` is called. */
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

  publish(changes: readonly TableChanges[]): void {
    for (const listener of this.#listeners) {
      for (const change of changes) listener.report(change)
    }
  }

  /** Reports that changes may be missing: the engine failed, possibly before it reported its last commit. */
  reportLoss(): void {
    for (const listener of this.#listeners) listener.reportLoss()
  }

  /** Ends the streams of all listeners: the database was removed, access was revoked, or the server is closing. */
  end(): void {
    for (const listener of this.#listeners) listener.end()
  }
}

class Listener extends Readable {
  readonly #subscription: Subscription
  readonly #pending: string[] = []
  readonly #keepAlive: NodeJS.Timeout
  /** Whether the reader has requested more than it has received. */
  #wantsMore = false
  #hasLostChanges = false
  #hasEnded = false

  constructor(subscription: Subscription) {
    // pending events are kept in `#pending` and not in the stream's own buffer, so that their number can be limited
    super({ highWaterMark: 1 })
    this.#subscription = subscription
    this.#keepAlive = setInterval(() => this.#sendKeepAlive(), KEEP_ALIVE_MS)
  }

  report({ table, ...counts }: TableChanges): void {
    const { table: subscribedTable, actions } = this.#subscription
    const changed = ACTIONS.filter((action) => counts[action] > 0)
    if (table !== subscribedTable || !changed.some((action) => actions.has(action))) return
    const data = JSON.stringify(Object.fromEntries(changed.map((action) => [action, counts[action]])))
    this.#pending.push(`event:changes\ndata:${data}\n\n`)
    if (this.#pending.length > MAX_PENDING) {
      this.#pending.shift()
      this.#hasLostChanges = true
    }
    this.#pushPending()
  }

  reportLoss(): void {
    this.#hasLostChanges = true
    this.#pushPending()
  }

  /** Ends the stream after the events that have already been pushed; pending ones are dropped. */
  end(): void {
    // a stream that was destroyed because its client has aborted must end with an error, not regularly
    if (this.#hasEnded || this.destroyed) return
    this.push(null)
    this.#hasEnded = true
    clearInterval(this.#keepAlive)
  }

  override _read(): void {
    this.#wantsMore = true
    this.#pushPending()
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    clearInterval(this.#keepAlive)
    callback(error)
  }

  #sendKeepAlive(): void {
    if (!this.#wantsMore) return
    this.#wantsMore = this.push(':keep-alive\n\n')
  }

  #pushPending(): void {
    while (this.#wantsMore && !this.#hasEnded) {
      const text = this.#hasLostChanges ? LOSS_EVENT : this.#pending.shift()
      if (text === undefined) return
      this.#hasLostChanges = false
      this.#keepAlive.refresh()
      this.#wantsMore = this.push(text)
    }
  }
}
