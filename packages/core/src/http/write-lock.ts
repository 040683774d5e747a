import type { Clock } from '../base/clock.ts'
import { Deadline } from '../base/deadline.ts'
import { TransportError } from '../base/errors.ts'
import { MAX_WRITE_TRANSACTIONS } from '../base/limits.ts'
import type { Limiter, Permit } from './limiter.ts'

/** Returns a hint for an error: a call and a transaction of the same client may have waited for each other. */
export const lockHint = (blocker: string): string =>
  `; another ${blocker} the write lock. If the transaction's callback awaits that call, make it with the transaction's own handle`

/**
 * Queues the write transactions of one client. If they were queued on the server, they would wait in requests that time out, and
 * the server could give the lock to a client that has exited.
 */
export class WriteLock {
  readonly #clock: Clock
  readonly #permits: Limiter
  readonly #timeoutMs: number
  /** Number of writes outside of transactions that have begun and have no response yet. */
  pending = 0
  /** Number of times that this client is known to have acquired the lock. */
  acquired = 0

  constructor(clock: Clock, permits: Limiter, timeoutMs: number) {
    this.#clock = clock
    this.#permits = permits
    this.#timeoutMs = timeoutMs
  }

  /** Whether more than one transaction has a permit. */
  get isContended(): boolean {
    return this.#permits.used > 1
  }

  /**
   * Returns a hint for the timeout of a write that another transaction of this client may have blocked; otherwise an empty string.
   * @param permit of the transaction that the write belongs to
   */
  hint(permit?: Permit | null): string {
    return this.#permits.used > (permit ? 1 : 0) ? lockHint('transaction of this client held') : ''
  }

  /** Acquires a write permit, or queues for one. @throws TransportError `QUEUE_FULL` or `CLOSED` */
  acquirePermit(): Permit {
    const timeoutMs = this.#timeoutMs
    const queuedAhead = this.#permits.queued
    const onTimeout = (): Error =>
      new TransportError(
        'TIMEOUT',
        `waited ${timeoutMs / 1_000} s for the write lock behind ${queuedAhead + MAX_WRITE_TRANSACTIONS} transactions of this client (writeLockTimeoutMs)`,
        'not_applied',
      )
    return this.#permits.acquire({ deadline: new Deadline(this.#clock, timeoutMs), onTimeout })
  }
}
