import type { Deferred } from '../base/deferred.ts'
import { TransportError } from '../base/errors.ts'
import type { Limiter } from './limiter.ts'

const REMEDY = "If that transaction's callback awaits this call, make it with the transaction's own handle"

/**
 * The transactions of one client that want the database's write lock. They take slots here and not at the server, which would
 * keep them waiting in requests that time out, and would give the lock to those whose process is gone.
 */
export class WriteLock {
  readonly #slots: Limiter
  readonly #timeoutMs: number

  constructor(slots: Limiter, timeoutMs: number) {
    this.#slots = slots
    this.#timeoutMs = timeoutMs
  }

  /** Whether more than one transaction has a slot. */
  get isContended(): boolean {
    return this.#slots.taken > 1
  }

  /**
   * Explains the timeout of a write that a transaction of the same client may have blocked; empty where none can have.
   * @param ownPermits slots of the transaction that the write belongs to
   */
  hint(ownPermits = 0): string {
    return this.#slots.taken > ownPermits
      ? `; another transaction of this client held the write lock. ${REMEDY}`
      : ''
  }

  /** Asks for a transaction's slot. @throws TransportError when too many wait */
  acquirePermit(): WritePermit {
    const timeoutMs = this.#timeoutMs
    const ahead = this.#slots.queued
    const onTimeout = (): Error =>
      new TransportError(
        'TIMEOUT',
        `waited ${timeoutMs / 1_000} s for the write lock behind ${ahead + 2} transactions of this client (writeLockTimeoutMs)`,
        'not_applied',
      )
    return new WritePermit(
      this.#slots,
      this.#slots.acquire({ deadline: { leftMs: timeoutMs, timeoutMs }, onTimeout }),
    )
  }
}

/** The slot of a transaction among those of its client that write. */
export class WritePermit {
  /** What waits for it; null when it came at once. */
  readonly waiter: Deferred | null
  readonly #slots: Limiter

  constructor(slots: Limiter, waiter: Deferred | null) {
    this.#slots = slots
    this.waiter = waiter
  }

  /** Lets the next one write. Called once, also when the slot has not come: its wait ends then. */
  release(): void {
    if (!this.waiter || this.waiter.isResolved) this.#slots.release()
    else this.waiter.reject(undefined)
  }
}
