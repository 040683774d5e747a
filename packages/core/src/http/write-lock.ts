import type { Deferred } from '../base/deferred.ts'
import { TransportError } from '../base/errors.ts'
import type { Limiter } from './limiter.ts'

/**
 * The calls of one client that want the database's write lock. Its transactions take slots here and not at the server, which
 * would keep them waiting in requests that time out, and would give the lock to those whose process is gone.
 */
export class WriteLock {
  readonly #slots: Limiter
  readonly #timeoutMs: number
  readonly #waiting = new Set<{ readonly sql: string }>()

  constructor(slots: Limiter, timeoutMs: number) {
    this.#slots = slots
    this.#timeoutMs = timeoutMs
  }

  /** A statement that waits for the lock, if there is one. */
  get firstWaiter(): string | undefined {
    const [first] = this.#waiting
    return first?.sql
  }

  /** Notes that a call wants the lock. @returns what ends that */
  addWaiter(sql: string): () => void {
    const entry = { sql }
    this.#waiting.add(entry)
    return () => this.#waiting.delete(entry)
  }

  /** Asks for a transaction's slot. @throws TransportError when too many wait */
  acquireSlot(sql: string): WriteSlot {
    const timeoutMs = this.#timeoutMs
    const ahead = this.#slots.queued
    const late = (): Error =>
      new TransportError(
        'TIMEOUT',
        `waited ${timeoutMs / 1_000} s for the write lock behind ${ahead + 2} transactions of this client (writeLockTimeoutMs)`,
        'not_applied',
      )
    return new WriteSlot(this.#slots, this.#slots.acquire({ ms: timeoutMs, late }), this.addWaiter(sql))
  }
}

/** The slot of a transaction among those of its client that write. */
export class WriteSlot {
  /** What waits for it; null when it came at once. */
  readonly waiter: Deferred | null
  /** Notes that the server has answered: the lock is not wanted any more, it is held. */
  readonly answered: () => void
  readonly #slots: Limiter

  constructor(slots: Limiter, waiter: Deferred | null, answered: () => void) {
    this.#slots = slots
    this.waiter = waiter
    this.answered = answered
  }

  /** Lets the next one write. Called once, also when the slot has not come: its wait ends then. */
  release(): void {
    this.answered()
    if (!this.waiter || this.waiter.isResolved) this.#slots.release()
    else this.waiter.reject(undefined)
  }
}
