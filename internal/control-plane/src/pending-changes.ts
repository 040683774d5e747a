import type { DatabaseId, RevokedAccess } from '@batonsql/server-common/backend'

/** First and longest delay before a retry, in ms. */
const FIRST_DELAY_MS = 1_000
const LONGEST_DELAY_MS = 60_000

/** A change that the back end has not applied yet. */
export interface PendingChange {
  readonly database: DatabaseId
  readonly failures: number
  readonly error: string
}

interface TrackedChange extends PendingChange {
  /** The access that it revokes. */
  readonly revoked: RevokedAccess | null
}

/** Applies the current state of the registry to the back end, or removes the database. */
export type ApplyChange = (id: DatabaseId, revoked: RevokedAccess | null) => Promise<void>

/**
 * Retries recorded changes that the back end has failed to apply, with increasing delays, until they succeed. Logs the first
 * failure of a change and its success.
 */
export class PendingChanges {
  readonly #applyChange: ApplyChange
  readonly #log: (line: string) => void
  readonly #pending = new Map<DatabaseId, TrackedChange>()
  readonly #timers = new Map<DatabaseId, NodeJS.Timeout>()
  #isStopped = false

  constructor(applyChange: ApplyChange, log: (line: string) => void = console.error) {
    this.#applyChange = applyChange
    this.#log = log
  }

  /** Changes that have not succeeded yet. */
  get list(): readonly PendingChange[] {
    return [...this.#pending.values()].map(({ database, failures, error }) => ({ database, failures, error }))
  }

  /** Records a failed attempt, and schedules the next. @param revoked the access that the change revokes */
  onFailure(id: DatabaseId, error: unknown, revoked: RevokedAccess | null): void {
    const previous = this.#pending.get(id)
    const text = error instanceof Error ? error.message : String(error)
    const failures = (previous?.failures ?? 0) + 1
    const access = getWidestAccess(revoked, previous?.revoked ?? null)
    this.#pending.set(id, { database: id, failures, error: text, revoked: access })
    // the next start applies the change
    if (this.#isStopped) return
    if (previous === undefined)
      this.#log(`database ${id}: the back end has failed to apply a change, which will be retried: ${text}`)
    clearTimeout(this.#timers.get(id))
    const delay = Math.min(FIRST_DELAY_MS * 2 ** (failures - 1), LONGEST_DELAY_MS)
    this.#timers.set(id, setTimeout(() => void this.#retry(id), delay).unref())
  }

  /** Returns the access that the pending changes of a database revoke; null if there is none. */
  getRevokedAccess(id: DatabaseId): RevokedAccess | null {
    return this.#pending.get(id)?.revoked ?? null
  }

  /** Records that the back end matches the registry. */
  onSuccess(id: DatabaseId): void {
    if (!this.#pending.delete(id)) return
    clearTimeout(this.#timers.get(id))
    this.#timers.delete(id)
    this.#log(`database ${id}: the back end has applied the change`)
  }

  /** Stops retries; pending changes are applied at the next start. */
  stop(): void {
    this.#isStopped = true
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
  }

  async #retry(id: DatabaseId): Promise<void> {
    this.#timers.delete(id)
    // a new failure is reported through `onFailure`
    await this.#applyChange(id, this.getRevokedAccess(id)).catch(() => {})
  }
}

/** Returns the revoked access that includes both. */
export function getWidestAccess(a: RevokedAccess | null, b: RevokedAccess | null): RevokedAccess | null {
  return a === 'all' || b === 'all' ? 'all' : (a ?? b)
}
