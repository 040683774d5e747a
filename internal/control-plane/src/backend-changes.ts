import type {
  DatabaseBackend,
  DatabaseId,
  DatabaseSettings,
  RevokedAccess,
} from '@batonsql/server-common/backend'
import { ApiError } from './api-error.ts'
import type { Registry } from './registry/registry.ts'
import type { DatabaseRow } from './registry/rows.ts'

/** First and longest delay before a retry, in ms. */
const FIRST_DELAY_MS = 1_000
const LONGEST_DELAY_MS = 60_000
const NOT_APPLIED_YET =
  'the change is recorded, but the database server has not applied it yet; it is retried automatically, and the log of the server shows the reason'

/** A change that the back end has not applied yet. */
export interface PendingChange {
  readonly database: DatabaseId
  readonly failures: number
  readonly error: string
}

interface TrackedChange extends PendingChange {
  /** The access that it revokes. */
  readonly revoked: RevokedAccess | null
  /** The next attempt; undefined after a stop. */
  readonly timer: NodeJS.Timeout | undefined
}

export interface ApplyOptions {
  /** Access that was revoked: requests that use it are aborted, with their streams and transactions. @default null */
  readonly revoked?: RevokedAccess | null
  /** Whether a database that the back end does not have is marked as lost instead of causing an error. @default false */
  readonly markMissingAsLost?: boolean
}

interface BackendChangesOptions {
  readonly registry: Registry
  readonly backend: DatabaseBackend
  /** Retries a removal that has failed. */
  readonly finishRemoval: (row: DatabaseRow) => Promise<void>
}

/**
 * Applies recorded changes of databases to the back end, one at a time for each database. A change that the back end has failed to
 * apply is retried, with increasing delays, until it succeeds. Its first failure and its success are logged.
 */
export class BackendChanges {
  readonly #options: BackendChangesOptions
  /** The last change of each database. */
  readonly #queues = new Map<DatabaseId, Promise<void>>()
  readonly #pending = new Map<DatabaseId, TrackedChange>()
  #isStopped = false

  constructor(options: BackendChangesOptions) {
    this.#options = options
  }

  /** Changes that the back end has failed to apply. */
  get pending(): readonly PendingChange[] {
    return [...this.#pending.values()].map(({ database, failures, error }) => ({ database, failures, error }))
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Stops retries; pending changes are applied at the next start. */
  stop(): void {
    this.#isStopped = true
    for (const { timer } of this.#pending.values()) clearTimeout(timer)
  }

  /** Runs a change of a database after its earlier changes, even if those have failed. */
  async enqueue(id: DatabaseId, change: () => Promise<void>): Promise<void> {
    const result = (this.#queues.get(id) ?? Promise.resolve()).then(change)
    const completion = result.catch(() => {})
    this.#queues.set(id, completion)
    await result.finally(() => {
      if (this.#queues.get(id) === completion) this.#queues.delete(id)
    })
  }

  /**
   * Applies the recorded settings to the back end, and aborts requests that use revoked access.
   * @throws ApiError 500 if the back end fails; the change is retried automatically
   */
  async apply(
    id: DatabaseId,
    { revoked = null, markMissingAsLost = false }: ApplyOptions = {},
  ): Promise<void> {
    await this.attempt(id, revoked, async (access) => {
      await this.enqueue(id, () => this.#applyNow(id, markMissingAsLost))
      if (access !== null) await this.#options.backend.revokeAccess(id, access)
    })
  }

  /**
   * Runs a recorded change on the back end.
   * @param work receives the access to revoke, which includes that of an earlier change that has failed
   * @throws ApiError 500 if the back end fails; the change is retried automatically
   */
  async attempt(
    id: DatabaseId,
    revoked: RevokedAccess | null,
    work: (revoked: RevokedAccess | null) => Promise<void>,
  ): Promise<void> {
    const before = this.#pending.get(id)
    const access = getWidestAccess(revoked, before?.revoked ?? null)
    try {
      await work(access)
    } catch (error) {
      this.#recordFailure(id, error, access)
      // the reason is logged: it may contain paths and ports of the server
      throw new ApiError(500, NOT_APPLIED_YET, 'not_applied_yet')
    }
    // another change may have failed meanwhile; it is retried
    if (this.#pending.get(id) === before) this.#forget(id)
  }

  #recordFailure(id: DatabaseId, error: unknown, access: RevokedAccess | null): void {
    const previous = this.#pending.get(id)
    const revoked = getWidestAccess(access, previous?.revoked ?? null)
    const text = error instanceof Error ? error.message : String(error)
    const failures = (previous?.failures ?? 0) + 1
    clearTimeout(previous?.timer)
    const delay = Math.min(FIRST_DELAY_MS * 2 ** (failures - 1), LONGEST_DELAY_MS)
    // a new failure is recorded by `attempt`
    const retry = (): void => void this.#retry(id, revoked).catch(() => {})
    const timer = this.#isStopped ? undefined : setTimeout(retry, delay).unref()
    this.#pending.set(id, { database: id, failures, error: text, revoked, timer })
    if (previous === undefined && !this.#isStopped)
      console.error(
        `database ${id}: the back end has failed to apply a change, which will be retried: ${text}`,
      )
  }

  /** Called when the back end matches the registry. */
  #forget(id: DatabaseId): void {
    clearTimeout(this.#pending.get(id)?.timer)
    if (this.#pending.delete(id)) console.error(`database ${id}: the back end has applied the change`)
  }

  /** Returns the settings for the back end, which include the blocks of the organization and the key of the group. */
  getSettings(row: DatabaseRow): DatabaseSettings {
    const { registry } = this.#options
    const { sizeLimitBytes, allowAttach, blockReads, blockWrites, blockReason } = row.configuration
    const organization = registry.organizations.get(row.organization)
    const group = registry.groups.get(row.group)
    return {
      sizeLimitBytes,
      allowAttach,
      isSchema: row.isSchema,
      blockReads: blockReads || organization?.blockedReads === true,
      blockWrites: blockWrites || organization?.blockedWrites === true,
      blockReason,
      keys: [row.key.publicPem, ...(group === undefined ? [] : [group.key.publicPem])],
    }
  }

  /** Retries a change according to the current state of the registry. */
  async #retry(id: DatabaseId, revoked: RevokedAccess | null): Promise<void> {
    const row = this.#options.registry.databases.get(id)
    if (row === undefined) this.#forget(id)
    else if (row.state === 'deleting') await this.#options.finishRemoval(row)
    else if (isServed(row)) await this.apply(id, { revoked })
  }

  /** Applies the settings, and checks whether the database exists in the back end. */
  async #applyNow(id: DatabaseId, markMissingAsLost: boolean): Promise<void> {
    const { registry, backend } = this.#options
    const row = registry.databases.get(id)
    if (row === undefined || !isServed(row)) return
    const exists = await backend.applySettings(id, this.getSettings(row))
    const current = registry.databases.get(id)
    if (current === undefined || !isServed(current) || exists === (current.state === 'ready')) return
    if (!exists && !markMissingAsLost) throw new Error('the back end does not have the database')
    const state = exists ? 'ready' : 'lost'
    registry.transaction(() => registry.databases.put({ ...current, state }))
  }
}

/** Whether the back end should have a database: one that is neither being created nor removed. */
export function isServed({ state }: DatabaseRow): boolean {
  return state === 'ready' || state === 'lost'
}

/** Returns the revoked access that includes both. */
function getWidestAccess(a: RevokedAccess | null, b: RevokedAccess | null): RevokedAccess | null {
  return a === 'all' || b === 'all' ? 'all' : (a ?? b)
}
