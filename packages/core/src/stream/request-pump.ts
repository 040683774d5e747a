import type { QueuedCall } from './queued-call.ts'
import type { StatementQueue } from './statement-queue.ts'
import type { StreamConnection } from './stream-connection.ts'

/** What the pump asks the stream. */
export interface PumpHost {
  /** Whether nothing more is to be run after what is queued. */
  readonly isClosing: boolean
  /** Whether what is queued has to wait for the write lock. */
  readonly isBlocked: boolean
  /** Sends calls, the end of the stream with them when told so, and settles them. Never rejects. */
  send(calls: readonly QueuedCall[], close: boolean): Promise<void>
  /** The stream is closed, as far as it can be. */
  closed(): void
}

/** Calls in one request where each carries the conditions of all before it. */
const V2_CALLS = 32

/** Sends what is queued, one request at a time. It is idle, sending, or lent to a cursor. */
export class RequestPump {
  readonly #queue: StatementQueue
  readonly #connection: StreamConnection
  readonly #host: PumpHost
  /** Settles when it is idle again; null when it is. */
  #busy: Promise<void> | null = null

  constructor(queue: StatementQueue, connection: StreamConnection, host: PumpHost) {
    this.#queue = queue
    this.#connection = connection
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

  /** Takes the stream for a cursor, when idle. @returns what gives it back */
  lend(): () => void {
    let giveBack = (): void => {}
    const busy = new Promise<void>((resolve) => {
      giveBack = () => {
        if (this.#busy === busy) this.#busy = null
        resolve()
        if (this.#queue.length > 0 || this.#host.isClosing) void this.run()
      }
    })
    this.#busy = busy
    return giveBack
  }

  async #drain(): Promise<void> {
    // what is issued in the same tick leaves together
    await Promise.resolve()
    while (this.#queue.length > 0 && !this.#host.isBlocked) {
      const calls = this.#queue.take(this.#connection.isV3 ? Infinity : V2_CALLS)
      if (calls.length === 0) break
      await this.#host.send(calls, this.#host.isClosing && this.#queue.length === 0)
    }
    if (this.#host.isClosing && this.#queue.length === 0) {
      // also when closing went wrong together with something else
      await this.#connection.end()
      this.#host.closed()
    }
    this.#busy = null
  }
}
