import type { DatabaseId, EndedAccess } from '../backend/backend.ts'

/** Wait before a change is tried again, and the longest, in ms. */
const FIRST_DELAY_MS = 1_000
const LONGEST_DELAY_MS = 60_000

/** A change that the back end has not taken over yet. */
export interface OpenChange {
  readonly database: DatabaseId
  /** How often it has failed. */
  readonly failures: number
  /** What went wrong the last time. */
  readonly error: string
}

interface Kept extends OpenChange {
  /** What has to end with it. */
  readonly ends: EndedAccess | null
}

/** What is done again: has the back end take over what the registry says, or remove the database. */
export type RepeatedWork = (id: DatabaseId, ends: EndedAccess | null) => Promise<void>

/**
 * Changes that are written down but that the back end has failed to take over: each is tried again, later and later,
 * until it succeeds. What is said on the error output: that it failed the first time, and that it has succeeded.
 */
export class Repeats {
  readonly #work: RepeatedWork
  readonly #log: (line: string) => void
  readonly #open = new Map<DatabaseId, Kept>()
  readonly #timers = new Map<DatabaseId, NodeJS.Timeout>()
  #isStopped = false

  constructor(work: RepeatedWork, log: (line: string) => void = console.error) {
    this.#work = work
    this.#log = log
  }

  /** What has not succeeded yet. */
  get open(): readonly OpenChange[] {
    return [...this.#open.values()].map(({ database, failures, error }) => ({ database, failures, error }))
  }

  /** A change has failed. @param ends the access that has ended with it */
  failed(id: DatabaseId, error: unknown, ends: EndedAccess | null): void {
    const before = this.#open.get(id)
    const text = error instanceof Error ? error.message : String(error)
    const failures = (before?.failures ?? 0) + 1
    const ended = widest(ends, before?.ends ?? null)
    this.#open.set(id, { database: id, failures, error: text, ends: ended })
    // the next start finishes it
    if (this.#isStopped) return
    if (before === undefined)
      this.#log(`database ${id}: the back end has not taken over a change, and is asked again: ${text}`)
    clearTimeout(this.#timers.get(id))
    const delay = Math.min(FIRST_DELAY_MS * 2 ** (failures - 1), LONGEST_DELAY_MS)
    this.#timers.set(id, setTimeout(() => void this.#repeat(id), delay).unref())
  }

  /** The access that a change of a database has ended which the back end has not taken over yet. */
  endedAccess(id: DatabaseId): EndedAccess | null {
    return this.#open.get(id)?.ends ?? null
  }

  /** The back end has what the registry says. */
  succeeded(id: DatabaseId): void {
    if (!this.#open.delete(id)) return
    clearTimeout(this.#timers.get(id))
    this.#timers.delete(id)
    this.#log(`database ${id}: the back end has taken over the change`)
  }

  /** Nothing is tried again from now on; what is open is finished at the next start. */
  stop(): void {
    this.#isStopped = true
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
  }

  async #repeat(id: DatabaseId): Promise<void> {
    this.#timers.delete(id)
    // what fails again has said so through `failed`
    await this.#work(id, this.endedAccess(id)).catch(() => {})
  }
}

/** Returns the access that includes both. */
export function widest(one: EndedAccess | null, other: EndedAccess | null): EndedAccess | null {
  return one === 'all' || other === 'all' ? 'all' : (one ?? other)
}
