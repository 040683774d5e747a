import { TransportError } from '../base/errors.ts'
import type { Waiter } from '../base/waiter.ts'
import type { Lane } from './lane.ts'

/**
 * The calls of one client that want the database's write lock. Its transactions take turns here and not at the server, which
 * would keep them waiting in requests that time out, and would give the lock to those whose process is gone.
 */
export class WriteLock {
  readonly #turns: Lane
  readonly #timeoutMs: number
  readonly #wanted = new Set<{ readonly sql: string }>()

  constructor(turns: Lane, timeoutMs: number) {
    this.#turns = turns
    this.#timeoutMs = timeoutMs
  }

  /** A statement that waits for the lock, if there is one. */
  get wantedBy(): string | undefined {
    const [first] = this.#wanted
    return first?.sql
  }

  /** Notes that a call wants the lock. @returns what ends that */
  want(sql: string): () => void {
    const entry = { sql }
    this.#wanted.add(entry)
    return () => this.#wanted.delete(entry)
  }

  /** Asks for a transaction's turn. @throws TransportError when too many wait */
  takeTurn(sql: string): WriteTurn {
    const timeoutMs = this.#timeoutMs
    const ahead = this.#turns.queued
    const late = (): Error =>
      new TransportError(
        'TIMEOUT',
        `waited ${timeoutMs / 1_000} s for the write lock behind ${ahead + 2} transactions of this client (writeLockTimeoutMs)`,
        'not_applied',
      )
    return new WriteTurn(this.#turns, this.#turns.acquire({ ms: timeoutMs, late }), this.want(sql))
  }
}

/** The turn of a transaction among those of its client that write. */
export class WriteTurn {
  /** What waits for it; null when it came at once. */
  readonly waiter: Waiter | null
  /** Notes that the server has answered: the lock is not wanted any more, it is held. */
  readonly answered: () => void
  readonly #turns: Lane

  constructor(turns: Lane, waiter: Waiter | null, answered: () => void) {
    this.#turns = turns
    this.waiter = waiter
    this.answered = answered
  }

  /** Lets the next one write. Called once, also when the turn has not come: its wait ends then. */
  end(): void {
    this.answered()
    if (!this.waiter || this.waiter.isResolved) this.#turns.release()
    else this.waiter.reject(undefined)
  }
}
