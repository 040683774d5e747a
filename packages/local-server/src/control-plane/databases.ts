import { newKeyPair } from '../auth/jwt.ts'
import {
  BackendRefusal,
  type DatabaseBackend,
  type DatabaseId,
  type DatabaseSettings,
  type DatabaseSource,
  type EndedAccess,
} from '../backend/backend.ts'
import { newDatabaseId } from '../backend/database-id.ts'
import { type OpenChange, Repeats, widest } from './pending-changes.ts'
import { Refusal } from './refusal.ts'
import type { Registry } from './registry/registry.ts'
import type { DatabaseConfiguration, DatabaseRow, GroupRow, OrganizationRow } from './registry/rows.ts'

/** How many databases the back end is asked for at once when all of them are gone through. */
const CONCURRENCY = 16

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

/** A database that is to be made. */
export interface NewDatabase {
  readonly organization: OrganizationRow
  readonly group: GroupRow
  /** Has been checked, and is free. */
  readonly name: string
  readonly source: DatabaseSource
  readonly configuration: DatabaseConfiguration
  readonly parent?: DatabaseRow
  /** How long it does not answer yet, in ms. */
  readonly readyDelayMs: number
  /** Is called in the transaction that makes it ready. */
  readonly onReady?: () => void
}

/** How settings are taken over. */
export interface ApplyOptions {
  /** The access that has ended: requests that run under it end, with their streams and transactions. @default null */
  readonly ends?: EndedAccess | null
  /** Whether a database that the back end does not have is marked as lost; otherwise that is a failure. @default false */
  readonly findsLost?: boolean
}

/** What the lifecycle works with. */
export interface DatabasesOptions {
  readonly registry: Registry
  readonly backend: DatabaseBackend
  /** To be done while the back end still has a database that is about to be removed. */
  readonly beforeRemoval: (row: DatabaseRow) => Promise<void>
}

/**
 * Makes, changes and removes databases. The intent is written down before the back end is asked, and what came of it
 * afterwards; so after a crash nothing is half there.
 */
export class Databases {
  readonly #options: DatabasesOptions
  /** The end of the last change of each database: the back end gets one after the other. */
  readonly #changes = new Map<DatabaseId, Promise<void>>()
  /** When a database answers that is to wait, by a clock that is never set. */
  readonly #delays = new Map<DatabaseId, number>()
  readonly #repeats = new Repeats((id, ends) => this.#settle(id, ends))

  constructor(options: DatabasesOptions) {
    this.#options = options
  }

  /** Changes that the back end has failed to take over; they are tried again by themselves. */
  get openChanges(): readonly OpenChange[] {
    return this.#repeats.open
  }

  /** Whether a database answers. */
  isReady({ id, state }: DatabaseRow): boolean {
    const due = this.#delays.get(id)
    if (due !== undefined && due > performance.now()) return false
    this.#delays.delete(id)
    return state === 'ready'
  }

  /** Nothing is tried again from now on. */
  stop(): void {
    this.#repeats.stop()
  }

  /** @throws Refusal when the back end does not make it; nothing is left of it then */
  async create(wanted: NewDatabase): Promise<DatabaseRow> {
    const { organization, group, name, source, parent, readyDelayMs } = wanted
    const { registry, backend } = this.#options
    // the source may have taken a while to read
    if (registry.groups.get(group.id)?.organization !== organization.id)
      throw new Refusal(409, `group ${group.name} was removed`)
    const from = this.#checkReadable(source)
    const configuration = { ...wanted.configuration, ...(from !== undefined && addressesOf(from)) }
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
      await this.#inTurn(row.id, () => backend.create(row.id, source, this.#settingsOf(row)))
      // its reads may have been blocked while it was copied
      this.#checkReadable(source)
    } catch (error) {
      // a removal that fails is tried again; what the caller has to know is why there is no database
      await this.remove(row).catch(() => {})
      throw error instanceof BackendRefusal ? new Refusal(400, error.message) : error
    }
    const made = registry.databases.get(row.id)
    // its group, or the server, has gone meanwhile
    if (made?.state !== 'creating') throw new Refusal(409, `database ${name} was removed while it was made`)
    const ready: DatabaseRow = { ...made, state: 'ready' }
    if (readyDelayMs > 0) this.#delays.set(row.id, performance.now() + readyDelayMs)
    registry.transaction(() => {
      registry.databases.put(ready)
      wanted.onReady?.()
    })
    // keys may have been rotated, or the group transferred, while it was made; what fails is tried again
    await this.apply(row.id).catch(() => {})
    return ready
  }

  /** @returns the database that is copied, if any @throws Refusal for one whose reads are blocked */
  #checkReadable(source: DatabaseSource): DatabaseRow | undefined {
    const from = source.type === 'fork' ? source.from : source.type === 'schema-child' ? source.parent : null
    const row = from === null ? undefined : this.#options.registry.databases.get(from)
    if (row?.configuration.blockReads !== true) return row
    const { blockReason: reason } = row.configuration
    throw new Refusal(403, `reads of database ${row.name} are blocked${reason === null ? '' : `: ${reason}`}`)
  }

  /** Writes down a changed row, and has the back end follow. */
  async change(row: DatabaseRow): Promise<void> {
    const { registry } = this.#options
    const before = registry.databases.get(row.id)?.configuration
    registry.transaction(() => registry.databases.put(row))
    await this.apply(row.id, { ends: endedBy(before, row.configuration) })
  }

  /**
   * Into a group that may be another organization's; what clients have open ends. `checkReceiver` is asked when its data is there.
   * @throws Refusal where it stays: when it was changed meanwhile
   */
  async move(row: DatabaseRow, group: GroupRow, checkReceiver: () => void): Promise<void> {
    const { registry, backend, beforeRemoval } = this.#options
    const { id } = row
    const place = { group: group.id, organization: group.organization, key: newKeyPair() }
    const check = (): DatabaseRow => {
      checkReceiver()
      const [now, there] = [registry.databases.get(id), registry.groups.get(group.id)]
      const isAsBefore =
        now?.state === 'ready' && now.group === row.group && now.organization === row.organization
      if (isAsBefore && there?.organization === group.organization) return now
      throw new Refusal(409, `database ${row.name} or its group was changed meanwhile`)
    }
    const commit = (): void => {
      const moved = { ...check(), ...place }
      registry.transaction(() => registry.databases.put(moved))
    }
    const moved = this.#inTurn(id, async () => {
      await beforeRemoval(check())
      if (backend.move === undefined) commit()
      else await backend.move(id, group.id, this.#settingsOf({ ...row, ...place }), commit)
    })
    // wherever it is now
    await moved.catch(() => {})
    await this.apply(id, { ends: 'all' })
    await moved
  }

  /**
   * Has the back end take over what the registry says now, and end what runs under an access that has ended.
   * @throws Refusal 500 when it does not; it is asked again by itself then
   */
  async apply(id: DatabaseId, { ends = null, findsLost = false }: ApplyOptions = {}): Promise<void> {
    await this.#attempt(id, ends, async (ended) => {
      await this.#inTurn(id, () => this.#applyNow(id, findsLost))
      if (ended !== null) await this.#options.backend.endAccess(id, ended)
    })
  }

  /** The same for several: one that fails does not keep the others from it. */
  async applyAll(rows: readonly DatabaseRow[], options: ApplyOptions = {}): Promise<void> {
    await eachOf(rows, ({ id }) => this.apply(id, options))
  }

  /**
   * From now on it cannot be found, and its name is free; resolves when its data is gone.
   * @throws Refusal while it is protected, or others share its schema
   */
  async remove(row: DatabaseRow): Promise<void> {
    this.checkRemovable(row)
    this.#options.registry.transaction(() => this.markDeleting(row))
    await this.finishRemoval(row)
  }

  /** @throws Refusal for a database that is protected, or whose schema others share */
  checkRemovable({ id, name, isSchema, configuration }: DatabaseRow): void {
    if (configuration.deleteProtection)
      throw new Refusal(400, `database ${name} is protected from deletion; unset delete_protection first`)
    const { rows } = this.#options.registry.databases
    if (isSchema && rows.some(({ schema, state }) => schema === id && state !== 'deleting'))
      throw new Refusal(400, `cannot delete \`${name}\` because databases are still refering to it`)
  }

  /** The first half of a removal, for a transaction of the caller's. */
  markDeleting(row: DatabaseRow): void {
    this.#options.registry.databases.put({ ...row, state: 'deleting' })
  }

  /** The second half, of several: those that share a schema go before the one that has it. */
  async finishRemovals(rows: readonly DatabaseRow[]): Promise<void> {
    const failures: unknown[] = []
    for (const isSchema of [false, true]) {
      const these = rows.filter((row) => row.isSchema === isSchema)
      // each is asked for, so that each that fails is tried again
      await eachOf(these, (row) => this.finishRemoval(row)).catch((error: unknown) => failures.push(error))
    }
    if (failures.length > 0) throw failures[0]
  }

  /** The second half. @throws Refusal 500 when the back end fails; it is asked again by itself then */
  async finishRemoval({ id, group }: DatabaseRow): Promise<void> {
    const { registry, backend, beforeRemoval } = this.#options
    await this.#attempt(id, null, async () => {
      await this.#inTurn(id, async () => {
        const row = registry.databases.get(id)
        if (row === undefined) return
        await beforeRemoval(row)
        await backend.remove(id)
      })
      registry.transaction(() => {
        registry.databases.delete(id)
        registry.file.run('DELETE FROM usage_sample WHERE database = ?', [id])
      })
    })
    await this.finishGroup(group)
  }

  /** What the back end keeps for a group goes with the last of its databases, once the group is gone. */
  async finishGroup(group: string): Promise<void> {
    const { registry, backend } = this.#options
    const isOver =
      registry.groups.get(group) === undefined && !registry.databases.rows.some((row) => row.group === group)
    // what stays is looked at again by the next start
    if (isOver) await backend.endGroup?.(group).catch((error: unknown) => console.error(String(error)))
  }

  /**
   * To be called once the back end has started: finishes what a crash has interrupted. What fails is said and tried
   * again later; one database does not keep the others from being served.
   */
  async reconcile(): Promise<void> {
    const { registry } = this.#options
    const { rows } = registry.databases
    const half = rows.filter((row) => !isServed(row))
    registry.transaction(() => {
      for (const row of half) this.markDeleting(row)
    })
    await this.finishRemovals(half).catch(() => {})
    await this.applyAll(rows.filter(isServed), { findsLost: true }).catch(() => {})
  }

  /** What is tried again: whatever the registry says now. */
  async #settle(id: DatabaseId, ends: EndedAccess | null): Promise<void> {
    const row = this.#options.registry.databases.get(id)
    if (row === undefined) this.#repeats.succeeded(id)
    else if (row.state === 'deleting') await this.finishRemoval(row)
    else if (isServed(row)) await this.apply(id, { ends })
  }

  /** Applies the settings, and finds out whether the database is there at all. */
  async #applyNow(id: DatabaseId, findsLost: boolean): Promise<void> {
    const { registry, backend } = this.#options
    const row = registry.databases.get(id)
    if (row === undefined || !isServed(row)) return
    const isThere = await backend.applySettings(id, this.#settingsOf(row))
    const now = registry.databases.get(id)
    if (now === undefined || !isServed(now) || isThere === (now.state === 'ready')) return
    if (!isThere && !findsLost) throw new Error('it has no such database')
    this.#setState(now, isThere ? 'ready' : 'lost')
  }

  /** Asks the back end for something that is written down already. */
  async #attempt(
    id: DatabaseId,
    ends: EndedAccess | null,
    work: (ended: EndedAccess | null) => Promise<void>,
  ): Promise<void> {
    // an earlier change that has failed may have ended more
    const ended = widest(ends, this.#repeats.endedAccess(id))
    try {
      await work(ended)
    } catch (error) {
      this.#repeats.failed(id, error, ended)
      const reason = error instanceof Error ? error.message : String(error)
      const state = 'the change is kept, but the database server has not taken it over yet and is asked again'
      throw new Refusal(500, `${state}: ${reason}`, 'not_taken_over_yet')
    }
    this.#repeats.succeeded(id)
  }

  #setState(row: DatabaseRow, state: DatabaseRow['state']): void {
    const { registry } = this.#options
    registry.transaction(() => registry.databases.put({ ...row, state }))
  }

  #settingsOf(row: DatabaseRow): DatabaseSettings {
    const { registry } = this.#options
    const { sizeLimitBytes, allowAttach, blockReads, blockWrites, blockReason } = row.configuration
    const organization = registry.organizations.get(row.organization)
    const group = registry.groups.get(row.group)
    return {
      sizeLimitBytes,
      allowAttach,
      blockReads: blockReads || organization?.blockedReads === true,
      blockWrites: blockWrites || organization?.blockedWrites === true,
      blockReason,
      keys: [row.key.publicPem, ...(group === undefined ? [] : [group.key.publicPem])],
    }
  }

  async #inTurn(id: DatabaseId, change: () => Promise<void>): Promise<void> {
    const turn = (this.#changes.get(id) ?? Promise.resolve()).then(change)
    const settled = turn.catch(() => {})
    this.#changes.set(id, settled)
    await turn.finally(() => {
      if (this.#changes.get(id) === settled) this.#changes.delete(id)
    })
  }
}

/** A copy is reached from the same addresses as its source. */
function addressesOf({
  configuration: { allowedIps, allowedAwsVpcIds },
}: DatabaseRow): Pick<DatabaseConfiguration, 'allowedIps' | 'allowedAwsVpcIds'> {
  return { allowedIps, allowedAwsVpcIds }
}

/** Returns the access that a change of the configuration ends. */
export function endedBy(
  before: DatabaseConfiguration | undefined,
  { blockReads, blockWrites, allowedIps }: DatabaseConfiguration,
): EndedAccess | null {
  const wasAllowed = ({ allowedIps: old }: DatabaseConfiguration): boolean =>
    old.length > 0 && old.every((range) => allowedIps.includes(range))
  if (before === undefined) return null
  if (blockReads && !before.blockReads) return 'all'
  if (allowedIps.length > 0 && !wasAllowed(before)) return 'all'
  return blockWrites && !before.blockWrites ? 'writes' : null
}

/** Whether the back end has it, as far as is known: neither being made nor being removed. */
function isServed({ state }: DatabaseRow): boolean {
  return state === 'ready' || state === 'lost'
}

/** Does the work for each, and fails when all are done, with the first failure. */
async function eachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items].reverse()
  const failures: unknown[] = []
  const worker = async (): Promise<void> => {
    for (let item = left.pop(); item !== undefined; item = left.pop())
      await work(item).catch((error: unknown) => failures.push(error))
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  if (failures.length > 0) throw failures[0]
}
