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
   * Takes a place, or queues for one.
   * @throws TransportError `QUEUE_FULL`, or when the client is closed; the wait rejects as `options` say
   */
  acquire(options: Omit<WaitOptions, 'onEnd'>): Place {
    options.signal?.throwIfAborted()
    let waiter: Deferred | null = null
    if (this.#free > 0) this.#free -= 1
    else {
      if (this.queued >= this.#queueLimit) throw queueFull(this.#queueLimit)
      waiter = this.#lifetime.wait({ ...options, onEnd: () => this.#waiting.delete(waiter as Deferred) })
      this.#waiting.add(waiter)
    }
    const release = (): void => {
      const [next] = this.#waiting
      if (waiter && !waiter.isResolved) waiter.reject(undefined)
      else if (next) next.resolve()
      else this.#free += 1
    }
    return { waiter, release }
  }
}

/** The place of a call that a limiter lets through, or will. */
export interface Place {
  /** What waits for it; null when it was free at once. */
  readonly waiter: Deferred | null
  /** Gives it to the next in the queue, or ends the wait for it. Called once. */
  release(): void
}
