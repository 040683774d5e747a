import { existsSync } from 'node:fs'
import { newKeyPair } from '@batonsql/server-common/auth'
import {
  BackendError,
  type DatabaseBackend,
  type DatabaseId,
  type DatabaseSource,
  newDatabaseId,
  type RevokedAccess,
} from '@batonsql/server-common/backend'
import { ApiError } from './api-error.ts'
import { type ApplyOptions, BackendChanges, isServed, type PendingChange } from './backend-changes.ts'
import { forEachConcurrently } from './for-each-concurrently.ts'
import { type DumpSource, InterruptedLoadError, loadDump } from './load-dump.ts'
import { recordRemoval } from './record-removal.ts'
import type { Registry } from './registry/registry.ts'
import type { DatabaseConfiguration, DatabaseRow, GroupRow, OrganizationRow } from './registry/rows.ts'

/** Block reason of a database whose content is being replaced. */
const RESTORE_REASON = 'the database is being restored from a snapshot'

/** Suffix of the name of a copy until the copy replaces its database. No database name can end with it. */
const RESTORED_SUFFIX = '.restored'

/** Maximum number of attempts to load a dump while the server is restarted. */
const MAX_LOADS = 3

export const NEW_CONFIGURATION: DatabaseConfiguration = {
  sizeLimitBytes: null,
  allowAttach: false,
  blockReads: false,
  blockWrites: false,
  blockReason: null,
  deleteProtection: false,
  allowedIps: [],
  allowedAwsVpcIds: [],
}

export interface NewDatabase {
  readonly organization: OrganizationRow
  readonly group: GroupRow
  /** Validated and not yet taken. */
  readonly name: string
  readonly source: DatabaseSource | DumpSource
  readonly configuration: DatabaseConfiguration
  readonly parent?: DatabaseRow
  /** How long the database takes to become ready after its creation, in ms. */
  readonly readyDelayMs: number
  /** Called in the registry transaction that marks the database as ready. If it throws, the database is not created. */
  readonly onReady?: (row: DatabaseRow) => void
}

export interface DatabasesOptions {
  readonly registry: Registry
  readonly backend: DatabaseBackend
  /** Called while the back end still has the database that is about to be removed. */
  readonly beforeRemoval: (row: DatabaseRow) => Promise<void>
  /** Removes what is stored for a database outside the back end. */
  readonly onRemoval: (row: DatabaseRow) => Promise<void>
}

/**
 * Creates, changes and removes databases. The intent is recorded before the back end is called, and the outcome afterwards, so
 * that an operation interrupted by a crash can be finished.
 */
export class Databases {
  readonly #options: DatabasesOptions
  readonly #changes: BackendChanges
  /** When each delayed database becomes ready, on a monotonic clock. */
  readonly #delays = new Map<DatabaseId, number>()

  constructor(options: DatabasesOptions) {
    this.#options = options
    const { registry, backend } = options
    this.#changes = new BackendChanges({ registry, backend, finishRemoval: (row) => this.finishRemoval(row) })
  }

  /** Changes that the back end has failed to apply; they are retried automatically. */
  get pendingChanges(): readonly PendingChange[] {
    return this.#changes.pending
  }

  isReady({ id, state }: DatabaseRow): boolean {
    const readyAt = this.#delays.get(id)
    if (readyAt !== undefined && readyAt > performance.now()) return false
    this.#delays.delete(id)
    return state === 'ready'
  }

  stop(): void {
    this.#changes.stop()
  }

  /** Creates a database. @throws ApiError if the back end cannot create it; in that case nothing is kept */
  async create(options: NewDatabase): Promise<DatabaseRow> {
    const { organization, group, name, source, parent, readyDelayMs } = options
    const { registry } = this.#options
    // the group may have been removed while the source was read
    if (registry.groups.get(group.id)?.organization !== organization.id)
      throw new ApiError(409, `group ${group.name} was removed`)
    const from = this.#checkReadable(options)
    const configuration = { ...options.configuration, ...(from !== undefined && getInheritedAddresses(from)) }
    const now = Date.now()
    const row: DatabaseRow = {
      id: newDatabaseId(),
      organization: organization.id,
      group: group.id,
      name,
      state: 'creating',
      configuration,
      parent: parent === undefined ? null : { id: parent.id, name: parent.name, branchedAt: now },
      isSchema: source.type === 'schema',
      schema: source.type === 'schema-child' ? source.parent : null,
      key: newKeyPair(),
      createdAt: now,
    }
    registry.transaction(() => registry.databases.put(row))
    try {
      await this.#changes.enqueue(row.id, () => this.#createNow(row, source))
      // reads of the source may have been blocked while it was copied
      this.#checkReadable(options)
    } catch (error) {
      const wasRemoved = registry.databases.get(row.id)?.state !== 'creating'
      // a failed removal is retried; the caller receives the error of the creation
      await this.remove(row).catch(() => {})
      if (wasRemoved) throw removedDuringCreation(name)
      const copied = from && registry.databases.get(from.id)
      if (from !== undefined && (copied === undefined || !isServed(copied)))
        throw new ApiError(409, `database ${from.name} was removed or restored while it was being copied`)
      if (from !== undefined && source.type === 'file' && !existsSync(source.file))
        throw new ApiError(409, `the snapshot of database ${from.name} was removed while it was being copied`)
      throw error instanceof BackendError ? new ApiError(400, error.message) : error
    }
    const createdRow = registry.databases.get(row.id)
    // the group was removed in the meantime, or the server was closed
    if (createdRow?.state !== 'creating') throw removedDuringCreation(name)
    const readyRow: DatabaseRow = { ...createdRow, state: 'ready' }
    if (readyDelayMs > 0) this.#delays.set(row.id, performance.now() + readyDelayMs)
    try {
      registry.transaction(() => {
        registry.databases.put(readyRow)
        options.onReady?.(readyRow)
      })
    } catch (error) {
      await this.remove(row).catch(() => {})
      throw error
    }
    // keys may have been rotated, or the group transferred, during the creation; a failure is retried
    await this.apply(row.id).catch(() => {})
    return registry.databases.get(row.id) ?? readyRow
  }

  async #createNow(row: DatabaseRow, source: DatabaseSource | DumpSource): Promise<void> {
    const { backend } = this.#options
    const settings = this.#changes.getSettings(row)
    if (source.type !== 'dump') return await backend.create(row.id, source, settings)
    for (let attempt = 1; ; attempt += 1) {
      await backend.create(row.id, { type: 'empty' }, settings)
      try {
        return await loadDump(backend, row, source.file)
      } catch (error) {
        // a change of another database may have restarted the server
        const canRetry = error instanceof InterruptedLoadError && !this.#changes.isStopped
        if (!canRetry || attempt === MAX_LOADS) throw error
      }
      await backend.remove(row.id)
    }
  }

  /** Checks that the source of a new database can be read. @returns the database that is copied, if any @throws ApiError */
  #checkReadable({ source, parent }: NewDatabase): DatabaseRow | undefined {
    const from = source.type === 'schema-child' ? source.parent : (parent?.id ?? null)
    const row = from === null ? undefined : this.#options.registry.databases.get(from)
    if (row?.configuration.blockReads !== true) return row
    const { blockReason: reason } = row.configuration
    throw new ApiError(
      403,
      `reads of database ${row.name} are blocked${reason === null ? '' : `: ${reason}`}`,
    )
  }

  /** Records a changed row, and applies it to the back end. */
  async change(row: DatabaseRow): Promise<void> {
    const { registry } = this.#options
    const previous = registry.databases.get(row.id)?.configuration
    registry.transaction(() => registry.databases.put(row))
    await this.apply(row.id, { revoked: getRevokedAccess(previous, row.configuration) })
  }

  /**
   * Replaces the content of a database with a file; all access ends first. The database gets a new id and key, so that its
   * tokens and streams can no longer be used, and keeps its name, group, settings, snapshots and copies.
   * Also replaces a lost database, and one whose file is damaged.
   * @throws ApiError if it is protected, or was changed in the meantime; in that case it keeps its content
   */
  async replace(row: DatabaseRow, file: string): Promise<DatabaseRow> {
    const { registry, backend } = this.#options
    const { id, name } = row
    const check = (): DatabaseRow => {
      const current = this.#getUnchanged(row)
      this.checkRemovable(current)
      return current
    }
    const onReady = (newRow: DatabaseRow): void => {
      const current = check()
      this.markDeleting(current)
      registry.databases.put({ ...current, id: newRow.id, key: newRow.key, state: 'ready' })
      for (const snapshot of registry.snapshots.rows.filter(({ database }) => database === id))
        registry.snapshots.put({ ...snapshot, database: newRow.id })
      for (const copy of registry.databases.rows)
        if (copy.parent?.id === id)
          registry.databases.put({ ...copy, parent: { ...copy.parent, id: newRow.id } })
    }
    let replacement = row
    const replacing = this.#changes.enqueue(id, async () => {
      const current = check()
      const settings = this.#changes.getSettings(current)
      const organization = registry.organizations.get(row.organization)
      const group = registry.groups.get(row.group)
      if (organization === undefined || group === undefined)
        throw new Error('the registry has no group of the database')
      // a database whose file is damaged is not served while its settings cannot be applied
      await backend
        .applySettings(id, {
          ...settings,
          blockReads: true,
          blockWrites: true,
          blockReason: RESTORE_REASON,
        })
        .catch(() => {})
      await backend.revokeAccess(id, 'all')
      replacement = await this.create({
        organization,
        group,
        name: name + RESTORED_SUFFIX,
        source: { type: 'file', file },
        configuration: current.configuration,
        readyDelayMs: 0,
        onReady,
      })
    })
    await replacing.catch(async (error: unknown) => {
      await this.apply(id).catch(() => {})
      throw error
    })
    // a failed removal is retried
    await this.finishRemoval(row).catch(() => {})
    return replacement
  }

  /** Checks that none of these databases is being restored. @throws ApiError 409 */
  checkNotRestoring(rows: readonly DatabaseRow[]): void {
    const copy = rows.find(({ name }) => name.endsWith(RESTORED_SUFFIX))?.name
    if (copy === undefined) return
    throw new ApiError(409, `database ${copy.slice(0, -RESTORED_SUFFIX.length)} is being restored`)
  }

  /** Returns the current row of a database. @throws ApiError if it was removed or moved since `row` was read */
  #getUnchanged(row: DatabaseRow): DatabaseRow {
    const current = this.#options.registry.databases.get(row.id)
    const isUnchanged =
      current !== undefined &&
      isServed(current) &&
      current.group === row.group &&
      current.organization === row.organization
    if (isUnchanged) return current
    throw new ApiError(409, `database ${row.name} or its group was changed in the meantime`)
  }

  /**
   * Moves a database to a group, possibly in another organization, and aborts its requests in flight. `checkNameAvailable` is called
   * first, and again after the data has been copied.
   * @throws ApiError if the database was changed in the meantime; in that case it is not moved
   */
  async move(row: DatabaseRow, group: GroupRow, checkNameAvailable: () => void): Promise<void> {
    const { registry, backend, beforeRemoval } = this.#options
    const { id } = row
    const destination = { group: group.id, organization: group.organization, key: newKeyPair() }
    const check = (): DatabaseRow => {
      checkNameAvailable()
      const current = this.#getUnchanged(row)
      const { organization, isArchived } = registry.groups.get(group.id) ?? {}
      const isUnchanged = current.state === 'ready' && organization === group.organization && !isArchived
      if (isUnchanged) return current
      throw new ApiError(409, `database ${row.name} or its group was changed in the meantime`)
    }
    const commit = (): void => {
      const movedRow = { ...check(), ...destination }
      registry.transaction(() => registry.databases.put(movedRow))
    }
    const move = this.#changes.enqueue(id, async () => {
      await beforeRemoval(check())
      if (backend.move === undefined) return commit()
      const settings = this.#changes.getSettings({ ...row, ...destination })
      await backend.move(id, group.id, settings, commit).catch((error: unknown) => {
        // the database or its group may have been removed meanwhile
        check()
        throw error
      })
    })
    // applies the settings whether or not the database was moved
    await move.catch(() => {})
    await this.apply(id, { revoked: 'all' })
    await move
    if (row.replicas !== undefined) await this.#stopUnusedReplicas(row.group)
  }

  /** Applies the recorded settings of a database: see {@link BackendChanges.apply}. */
  async apply(id: DatabaseId, options?: ApplyOptions): Promise<void> {
    await this.#changes.apply(id, options)
  }

  /** Applies the settings of several databases, even if some fail. */
  async applyAll(rows: readonly DatabaseRow[], options?: ApplyOptions): Promise<void> {
    await forEachConcurrently(rows, ({ id }) => this.apply(id, options))
  }

  /**
   * Removes a database. Its name becomes free at once; resolves when its data has been removed.
   * @throws ApiError if it is protected, or if others share its schema
   */
  async remove(row: DatabaseRow): Promise<void> {
    this.checkRemovable(row)
    await this.recordRemoval([row], () => this.#options.registry.transaction(() => this.markDeleting(row)))
    await this.finishRemoval(row)
  }

  /** Checks that a database may be removed. @throws ApiError if it is protected, or if others share its schema */
  checkRemovable({ id, name, isSchema, configuration }: DatabaseRow): void {
    if (configuration.deleteProtection)
      throw new ApiError(400, `database ${name} is protected from deletion; unset delete_protection first`)
    const { rows } = this.#options.registry.databases
    // libsql-server's own words
    if (isSchema && rows.some(({ schema, state }) => schema === id && state !== 'deleting'))
      throw new ApiError(400, `cannot delete \`${name}\` because databases are still refering to it`)
  }

  /** Records removals. @param record calls `markDeleting` in a transaction */
  async recordRemoval(rows: readonly DatabaseRow[], record: () => void): Promise<void> {
    await recordRemoval(record, async () => {
      for (const { id } of rows) await this.#changes.enqueue(id, () => this.#options.backend.remove(id))
    })
  }

  /** Begins a removal, within the caller's transaction. */
  markDeleting(row: DatabaseRow): void {
    this.#options.registry.databases.put({ ...row, state: 'deleting' })
  }

  /** Finishes several removals. Databases that share a schema are removed before their schema database. */
  async finishRemovals(rows: readonly DatabaseRow[]): Promise<void> {
    const failures: unknown[] = []
    for (const isSchema of [false, true]) {
      const batch = rows.filter((row) => row.isSchema === isSchema)
      // attempts all removals, so that every failure is retried
      await forEachConcurrently(batch, (row) => this.finishRemoval(row)).catch((error: unknown) =>
        failures.push(error),
      )
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Finishes a removal. @throws ApiError 500 if the back end fails; the removal is retried automatically */
  async finishRemoval({ id, group, replicas = [] }: DatabaseRow): Promise<void> {
    const { registry, backend, beforeRemoval, onRemoval } = this.#options
    await this.#changes.attempt(id, null, async () => {
      await this.#changes.enqueue(id, async () => {
        const row = registry.databases.get(id)
        if (row === undefined) return
        await beforeRemoval(row)
        await backend.remove(id)
        await onRemoval(row)
      })
      registry.transaction(() => {
        registry.databases.delete(id)
        registry.file.run('DELETE FROM usage_sample WHERE database = ?', [id])
      })
    })
    if (replicas.length > 0) await this.#stopUnusedReplicas(group)
    await this.cleanUpGroup(group)
  }

  /** Stops the replicas of a group in locations that only a removed database had. */
  async #stopUnusedReplicas(group: string): Promise<void> {
    await this.#options.backend.setReplicas?.(group).catch((error: unknown) => console.error(String(error)))
  }

  /** Removes the remaining files of a removed group once its last database has been removed. */
  async cleanUpGroup(group: string): Promise<void> {
    const { registry, backend } = this.#options
    const isRemoved =
      registry.groups.get(group) === undefined && !registry.databases.rows.some((row) => row.group === group)
    // anything left is removed at the next start
    if (isRemoved) await backend.removeGroup?.(group).catch((error: unknown) => console.error(String(error)))
  }

  /**
   * Finishes changes that a crash interrupted; called after the back end was started. Failures are logged and retried later, and
   * do not affect other databases.
   */
  async reconcile(): Promise<void> {
    const { registry } = this.#options
    const { rows } = registry.databases
    const unfinished = rows.filter((row) => !isServed(row))
    registry.transaction(() => {
      for (const row of unfinished) this.markDeleting(row)
    })
    await this.finishRemovals(unfinished).catch(() => {})
    await this.applyAll(rows.filter(isServed), { markMissingAsLost: true }).catch(() => {})
  }
}

function removedDuringCreation(name: string): ApiError {
  return new ApiError(409, `database ${name} was removed while it was being created`)
}

function getInheritedAddresses({
  configuration: { allowedIps, allowedAwsVpcIds },
}: DatabaseRow): Pick<DatabaseConfiguration, 'allowedIps' | 'allowedAwsVpcIds'> {
  return { allowedIps, allowedAwsVpcIds }
}

/** Returns the access that a configuration change revokes. @param previous undefined for a new database, which revokes nothing */
export function getRevokedAccess(
  previous: DatabaseConfiguration | undefined,
  { blockReads, blockWrites, allowedIps }: DatabaseConfiguration,
): RevokedAccess | null {
  if (previous === undefined) return null
  if (blockReads && !previous.blockReads) return 'all'
  // an empty list allows all addresses
  const allowedAll = previous.allowedIps.length === 0
  const keepsAllowed = !allowedAll && previous.allowedIps.every((range) => allowedIps.includes(range))
  if (allowedIps.length > 0 && !keepsAllowed) return 'all'
  return blockWrites && !previous.blockWrites ? 'writes' : null
}
