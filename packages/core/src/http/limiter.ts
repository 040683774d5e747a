import type { Deferred } from '../base/deferred.ts'
import { queueFull } from '../transport/failure.ts'
import type { Lifetime, WaitOptions } from './lifetime.ts'

/** Lets a number of calls through at once; the others queue, in the order in which they came. */
export class Limiter {
  readonly #lifetime: Lifetime
  readonly #queueLimit: number
  readonly #waiting = new Set<Deferred>()
  readonly #limit: number
  #free: number

  constructor(lifetime: Lifetime, limit: number, queueLimit: number) {
    this.#lifetime = lifetime
    this.#limit = limit
    this.#free = limit
    this.#queueLimit = queueLimit
  }

  /** Calls that have a place. */
  get taken(): number {
    return this.#limit - this.#free
  }

  /** Calls that queue. */
  get queued(): number {
    return this.#waiting.size
  }

  /**
   * Takes a place. @returns what waits for it; null when there is one at once
   * @throws TransportError `QUEUE_FULL`, or when the client is closed; the wait rejects as `options` say
   */
  acquire(options: Omit<WaitOptions, 'onEnd'>): Deferred | null {
    options.signal?.throwIfAborted()
    if (this.#free > 0) {
      this.#free -= 1
      return null
    }
    if (this.queued >= this.#queueLimit) throw queueFull(this.#queueLimit)
    const waiter = this.#lifetime.wait({ ...options, onEnd: () => this.#waiting.delete(waiter) })
    this.#waiting.add(waiter)
    return waiter
  }

  /** Gives the place to the next in the queue. */
  release(): void {
    const [next] = this.#waiting
    if (next) next.resolve()
    else this.#free += 1
  }
}
