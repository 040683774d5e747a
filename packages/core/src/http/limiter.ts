import type { Deferred } from '../base/deferred.ts'
import { queueFullError } from '../transport/failure.ts'
import type { Lifetime, WaitOptions } from './lifetime.ts'

/** Limits the number of concurrent calls; further calls are queued in order. */
export class Limiter {
  readonly #lifetime: Lifetime
  readonly #queueLimit: number
  readonly #waiting = new Set<Deferred>()
  readonly #limit: number
  /** Number of calls that hold a permit. */
  used = 0

  constructor(lifetime: Lifetime, limit: number, queueLimit: number) {
    this.#lifetime = lifetime
    this.#limit = limit
    this.#queueLimit = queueLimit
  }

  get queued(): number {
    return this.#waiting.size
  }

  /**
   * Acquires a permit, or queues for one.
   * @throws TransportError `QUEUE_FULL`, or if the client is closed; the returned wait also rejects at its deadline or when its signal is
   * aborted
   */
  acquire(options: Omit<WaitOptions, 'onEnd'>): Permit {
    options.signal?.throwIfAborted()
    let waiter: Deferred | null = null
    if (this.used < this.#limit) this.used += 1
    else {
      if (this.queued >= this.#queueLimit) throw queueFullError(this.#queueLimit)
      waiter = this.#lifetime.wait({ ...options, onEnd: () => this.#waiting.delete(waiter as Deferred) })
      this.#waiting.add(waiter)
    }
    const release = (): void => {
      const [next] = this.#waiting
      // still queued: leaves the queue, through `onEnd`, and its reason is ignored
      if (waiter && !waiter.isResolved) waiter.reject(undefined)
      // the permit passes on, and its wait leaves the queue
      else if (next) next.resolve()
      else this.used -= 1
    }
    return { waiter, release, deadline: options.deadline }
  }
}

/** A permit of a limiter, held or still awaited. */
export interface Permit {
  /** The wait for it; null if one was free. */
  readonly waiter: Deferred | null
  readonly deadline: WaitOptions['deadline']
  /** Passes it to the next call in the queue, or leaves the queue. Must be called exactly once. */
  release(): void
}
