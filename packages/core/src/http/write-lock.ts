import { TransportError } from '../errors.ts'
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

  /** Waits for a transaction's turn. @returns what ends it @throws TransportError; the signal's reason */
  async takeTurn(signal: AbortSignal): Promise<() => void> {
    const timeoutMs = this.#timeoutMs
    const ahead = this.#turns.queued
    const late = (): Error =>
      new TransportError(
        'TIMEOUT',
        `waited ${timeoutMs / 1_000} s for the write lock behind ${ahead + 2} transactions of this client (writeLockTimeoutMs)`,
        'not_applied',
      )
    await this.#turns.acquire({ ms: timeoutMs, signal, late })
    return () => this.#turns.release()
  }
}
