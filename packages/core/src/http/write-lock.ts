import { TransportError } from '../base/errors.ts'
import type { Limiter, Place } from './limiter.ts'

/** Explains why a call and a transaction of the same client may wait for each other. */
export const lockHint = (other: string): string =>
  `; another ${other} the write lock. If the transaction's callback awaits that call, make it with the transaction's own handle`

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
    return this.#slots.taken > ownPermits ? lockHint('transaction of this client held') : ''
  }

  /** Asks for a transaction's permit to write. @throws TransportError when too many wait */
  acquirePermit(): Place {
    const timeoutMs = this.#timeoutMs
    const ahead = this.#slots.queued
    const onTimeout = (): Error =>
      new TransportError(
        'TIMEOUT',
        `waited ${timeoutMs / 1_000} s for the write lock behind ${ahead + 2} transactions of this client (writeLockTimeoutMs)`,
        'not_applied',
      )
    return this.#slots.acquire({ deadline: { leftMs: timeoutMs, timeoutMs }, onTimeout })
  }
}
