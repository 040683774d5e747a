import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type DatabaseBackend,
  type DatabaseId,
  type DatabaseSettings,
  type DatabaseSource,
  getSetAsideFolder,
  hasDatabaseFile,
  type QueryUsage,
  type RevokedAccess,
  setAside,
  type UsageSample,
} from '@batonsql/server-common/backend'
import { isUuid, listFolder } from '@batonsql/server-common/base'
import { errorResponse, type ServiceRequest, type ServiceResponse } from '@batonsql/server-common/http'
import { SqldBackend, type SqldBackendOptions } from './backend.ts'
import { findSqld } from './process/binary.ts'
import { readVersion } from './process/spawn-sqld.ts'

/** Folder of a server's databases inside the group's folder. */
const DATABASES = join('sqld', 'dbs')

/** Suffix of the folder of a group that is being removed. */
const REMOVED_SUFFIX = '.removed'
/** Suffix of a file that is being copied to another group's server. */
const COPY_SUFFIX = '.copy'
const MOVE_REASON = 'the database is being moved to another group'

/** Prefix of notices about a database that libsql-server cannot open. */
const UNUSABLE_MESSAGE = 'libsql-server cannot use this database'

/** Options of {@link SqldGroups}; `directory` has a folder for each group. */
export interface SqldGroupsOptions extends Omit<SqldBackendOptions, 'remote'> {
  /** Returns the group of a database; undefined if the database does not exist. */
  readonly findGroup: (id: DatabaseId) => string | undefined
  readonly hasGroup: (group: string) => boolean
  readonly getReplicaLocations: (group: string) => readonly string[]
}

interface GroupEntry {
  /** Its server; null until it is first needed. */
  server: Promise<SqldBackend> | null
  /** Settings that the server has not applied yet, because it is not running or has failed to apply them. */
  readonly pending: Map<DatabaseId, DatabaseSettings>
  /** Databases whose failure has been reported. */
  readonly reported: Set<DatabaseId>
}

/** A database and the server that serves it, or will serve it. */
interface ServedDatabase {
  readonly server: SqldBackend
  readonly id: DatabaseId
}

/**
 * Runs a separate libsql-server process with its own folder for each group, so that the load or failure of one group (128
 * concurrent streams, an endless statement, a crash) does not affect another. A process starts on the first request for one of
 * the group's databases, and stops with the local server or when the group is removed.
 */
export class SqldGroups implements DatabaseBackend {
  readonly kind = 'sqld' as const
  readonly hasTablePermissions = false
  readonly #options: SqldGroupsOptions
  readonly #entries = new Map<string, GroupEntry>()
  #isClosed = false

  constructor(options: SqldGroupsOptions) {
    this.#options = options
  }

  /** Checks that the program exists, without starting a server. */
  async start(): Promise<string> {
    const { sqldPath, directory } = this.#options
    await mkdir(directory, { recursive: true })
    return await readVersion(await findSqld(sqldPath === undefined ? {} : { sqldPath }))
  }

  /** Does nothing: each libsql-server resumes its own migrations when it starts. */
  resume(): void {}

  /** Also removes the empty folders of groups that no longer exist. */
  async setAsideUnregistered(registeredIds: ReadonlySet<DatabaseId>): Promise<readonly DatabaseId[]> {
    const names = await listFolder(this.#options.directory)
    for (const name of names.filter((entry) => entry.endsWith(REMOVED_SUFFIX) || entry.endsWith(COPY_SUFFIX)))
      await removeFolder(this.#getFolder(name))
    // the folder of a group is named for its id; other folders are ignored
    const groups = names.filter(isUuid)
    const moved = await Promise.all(
      groups.map((group) => {
        // also moves copies that an interrupted move left in another group
        const groupIds = [...registeredIds].filter((id) => this.#options.findGroup(id) === group)
        return setAside(join(this.#getFolder(group), DATABASES), new Set(groupIds))
      }),
    )
    for (const group of groups)
      if (!this.#options.hasGroup(group) && (await this.#isEmpty(group))) await this.removeGroup(group)
    return moved.flat().map(({ id }) => id)
  }

  async create(id: DatabaseId, source: DatabaseSource, settings: DatabaseSettings): Promise<void> {
    const crossesGroups = source.type === 'fork' && this.#getGroup(source.from) !== this.#getGroup(id)
    if (!crossesGroups) return await (await this.#getServer(id)).create(id, source, settings)
    const from = { server: await this.#getServer(source.from), id: source.from }
    await this.#copy(from, { server: await this.#getServer(id), id }, settings)
  }

  /** Creates a database on one server as a copy of a database on another. */
  async #copy(from: ServedDatabase, to: ServedDatabase, settings: DatabaseSettings): Promise<void> {
    // a file left by a killed process is removed at startup
    const file = join(this.#options.directory, `${to.id}${COPY_SUFFIX}`)
    try {
      await from.server.exportTo(from.id, file)
      await to.server.create(to.id, { type: 'file', file }, settings)
    } finally {
      await rm(file, { force: true })
    }
  }

  /**
   * Blocks writes during the move, and aborts client requests and streams in the old group. If the move fails, writes are blocked
   * until the caller applies the settings.
   */
  async move(id: DatabaseId, group: string, settings: DatabaseSettings, commit: () => void): Promise<void> {
    // the only copy would be removed below
    if (this.#getGroup(id) === group) throw new Error('the database is already in this group')
    const from = await this.#getServer(id)
    const to = await this.#startOnce(group)
    // an earlier move may have failed and left a copy there
    await to.remove(id)
    try {
      await from.freeze(id, MOVE_REASON)
      await this.#copy({ server: from, id }, { server: to, id }, settings)
      commit()
    } catch (error) {
      await to.remove(id).catch(() => {})
      throw error
    }
    // if this fails, the next start sets the old copy aside
    await from.remove(id).catch((error: unknown) => console.error(String(error)))
  }

  async exportTo(id: DatabaseId, file: string): Promise<void> {
    await (await this.#getServer(id)).exportTo(id, file)
  }

  /** If the server is not running, keeps the settings until it starts. */
  async applySettings(id: DatabaseId, settings: DatabaseSettings): Promise<boolean> {
    const group = this.#getGroup(id)
    const entry = this.#getEntry(group)
    entry.pending.set(id, settings)
    if (entry.server !== null && !(await applyPending(await entry.server, entry, id))) return false
    // a server that was starting has already taken the settings, even those of a missing database
    return hasDatabaseFile(join(this.#getFolder(group), DATABASES, id, 'data'))
  }

  async remove(id: DatabaseId): Promise<void> {
    this.#getEntry(this.#getGroup(id)).pending.delete(id)
    await (await this.#getServer(id)).remove(id)
  }

  async revokeAccess(id: DatabaseId, access: RevokedAccess): Promise<void> {
    await (await this.#getRunningServer(id))?.revokeAccess(id, access)
  }

  async abortRequests(): Promise<void> {
    await this.#forEachServer((server) => server.abortRequests().catch(() => {}))
  }

  /** @throws Error if the group's server is not running, because there are no new counts */
  async sampleUsage(id: DatabaseId): Promise<UsageSample> {
    const server = await this.#getRunningServer(id)
    if (server === null) throw new Error('the database has not been used since the server was started')
    return await server.sampleUsage(id)
  }

  /** Starts the server if necessary: whether it can is part of its health. */
  async findHealthProblem(id: DatabaseId, location: string | null = null): Promise<string | null> {
    if (this.#options.findGroup(id) === undefined) return null
    const server = await this.#getUsableServer(id)
    return server === null ? UNUSABLE_MESSAGE : await server.findHealthProblem(id, location)
  }

  /** If the group's server is not running, its replicas start when they are needed. */
  async setReplicas(group: string): Promise<void> {
    const server = await this.#entries.get(group)?.server
    await server?.changeReplicas(() => this.#options.getReplicaLocations(group))
  }

  async topQueries(id: DatabaseId): Promise<readonly QueryUsage[]> {
    return (await (await this.#getRunningServer(id))?.topQueries(id)) ?? []
  }

  async handle(
    id: DatabaseId,
    request: ServiceRequest,
    location: string | null = null,
  ): Promise<ServiceResponse> {
    // the database may have been removed since it was looked up
    if (this.#options.findGroup(id) === undefined)
      return errorResponse(404, `Namespace \`${id}\` doesn't exist`)
    const server = await this.#getUsableServer(id)
    return (await server?.handle(id, request, location)) ?? errorResponse(500, UNUSABLE_MESSAGE)
  }

  /** Stops the server of a removed group, and removes its folder. */
  async removeGroup(group: string): Promise<void> {
    const server = this.#entries.get(group)?.server
    this.#entries.delete(group)
    await (await server?.catch(() => null))?.[Symbol.asyncDispose]()
    const folder = this.#getFolder(group)
    if (!existsSync(folder)) return
    // renamed first, so that a partly removed folder is not mistaken for a group
    await rename(folder, `${folder}${REMOVED_SUFFIX}`)
    await removeFolder(`${folder}${REMOVED_SUFFIX}`)
  }

  async abandon(): Promise<void> {
    this.#isClosed = true
    await this.#forEachServer((server) => server.abandon())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    await this.#forEachServer((server) => server[Symbol.asyncDispose]())
  }

  /** Calls a function with each server that has been started. */
  async #forEachServer(callback: (server: SqldBackend) => Promise<void>): Promise<void> {
    const calls = [...this.#entries.values()].map(async (entry) => {
      const server = await entry.server?.catch(() => null)
      if (server) await callback(server)
    })
    await Promise.all(calls)
  }

  #getFolder(group: string): string {
    return join(this.#options.directory, group)
  }

  #getGroup(id: DatabaseId): string {
    const group = this.#options.findGroup(id)
    if (group === undefined) throw new Error(`the group of database ${id} is unknown`)
    return group
  }

  #getEntry(group: string): GroupEntry {
    const existing = this.#entries.get(group)
    if (existing !== undefined) return existing
    const entry: GroupEntry = { server: null, pending: new Map(), reported: new Set() }
    this.#entries.set(group, entry)
    return entry
  }

  /*
   * Ways to get a server:
   *
   * - `#startOnce`: starts the server of a group, unless it is running;
   * - `#getServer`: also applies the pending settings of a database, and rejects if that fails;
   * - `#getUsableServer`: returns null if that fails, and reports it once;
   * - `#getRunningServer`: returns null if the server is not running, and applies no settings.
   */

  /** Returns the server of a group, starting it if necessary. */
  #startOnce(group: string): Promise<SqldBackend> {
    const entry = this.#getEntry(group)
    if (this.#isClosed) return Promise.reject(new Error('the server is closed'))
    entry.server ??= this.#startServer(group, entry).catch((error: unknown) => {
      // retried on the next request
      entry.server = null
      throw error
    })
    return entry.server
  }

  /** Returns the server of a database's group, starting it if necessary. Rejects if the database's settings cannot be applied. */
  async #getServer(id: DatabaseId): Promise<SqldBackend> {
    const group = this.#getGroup(id)
    const server = await this.#startOnce(group)
    await applyPending(server, this.#getEntry(group), id).catch((cause: Error) => {
      throw new Error(`${UNUSABLE_MESSAGE}: ${cause.message}`, { cause })
    })
    return server
  }

  /** Returns the server of a database's group, starting it if necessary; null if that server cannot use the database. */
  async #getUsableServer(id: DatabaseId): Promise<SqldBackend | null> {
    const group = this.#getGroup(id)
    const entry = this.#getEntry(group)
    const server = await this.#startOnce(group)
    const isUsable = !entry.pending.has(id) || (await this.#tryApplySettings(server, entry, id))
    return isUsable ? server : null
  }

  /** Returns the running server of a database's group; null if it is not running, or if the database was removed. */
  async #getRunningServer(id: DatabaseId): Promise<SqldBackend | null> {
    const group = this.#options.findGroup(id)
    return group === undefined ? null : await this.#getEntry(group).server
  }

  /**
   * Starts a server. If one database's settings cannot be applied, for example to a damaged file, only that database fails.
   */
  async #startServer(group: string, entry: GroupEntry): Promise<SqldBackend> {
    const directory = this.#getFolder(group)
    const servesReplicas = this.#options.getReplicaLocations(group).length > 0
    const server = new SqldBackend({
      ...this.#options,
      directory,
      servesReplicas,
      isReplicaLocation: (location) => this.#options.getReplicaLocations(group).includes(location),
      remote: undefined,
    })
    try {
      await rm(join(directory, 'replicas'), { recursive: true, force: true })
      await server.start()
      for (const id of entry.pending.keys()) await this.#tryApplySettings(server, entry, id)
      return server
    } catch (error) {
      await server[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Applies a database's pending settings. @returns whether this succeeded; otherwise the database must not be used */
  async #tryApplySettings(server: SqldBackend, entry: GroupEntry, id: DatabaseId): Promise<boolean> {
    try {
      await applyPending(server, entry, id)
      entry.reported.delete(id)
      return true
    } catch (error) {
      if (!entry.reported.has(id)) this.#options.onNotice(id, `${UNUSABLE_MESSAGE}: ${String(error)}`)
      entry.reported.add(id)
      return false
    }
  }

  /** Whether a group has neither databases nor any that were set aside. */
  async #isEmpty(group: string): Promise<boolean> {
    const folder = this.#getFolder(group)
    if (existsSync(getSetAsideFolder(join(folder, DATABASES)))) return false
    return (await listFolder(join(folder, DATABASES))).length === 0
  }
}

/** Applies the pending settings of a database, if any. @returns false if the server does not have the database */
async function applyPending(server: SqldBackend, { pending }: GroupEntry, id: DatabaseId): Promise<boolean> {
  const settings = pending.get(id)
  if (settings === undefined) return true
  const exists = await server.applySettings(id, settings)
  // newer settings may have been queued meanwhile
  if (pending.get(id) === settings) pending.delete(id)
  return exists
}

async function removeFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, maxRetries: 3 })
}
