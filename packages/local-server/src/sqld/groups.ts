import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type {
  DatabaseBackend,
  DatabaseId,
  DatabaseSettings,
  DatabaseSource,
  EndedAccess,
  QueryUsage,
  UsageSample,
} from '../backend/backend.ts'
import { hasDatabaseFile } from '../backend/database-file.ts'
import { moveUnknownAside } from '../backend/quarantine.ts'
import { errorResponse, type ServiceRequest, type ServiceResponse } from '../http/service-request.ts'
import { SqldBackend, type SqldBackendOptions } from './backend.ts'
import { findSqld } from './process/binary.ts'
import { versionOf } from './process/process.ts'

/** Where a group's server keeps its databases, in the group's folder. */
const DATABASES = join('sqld', 'dbs')

/** Ids of groups; other folders are left alone. */
const IS_GROUP = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** The end of the name of a group's folder that is being removed. */
const REMOVED = '.removed'
/** The end of the name of a file that is on its way to another group's server. */
const COPY = '.copy'
/** What writers see while a database is on its way. */
const MOVING = 'the database is being moved to another group'

/** What is said of a database that libsql-server does not open. */
const UNUSABLE = 'libsql-server cannot use this database'

/** How the back end is made: `directory` has a folder for each group. */
export interface SqldGroupsOptions extends Omit<SqldBackendOptions, 'remote'> {
  /** The group of a database; undefined for one that is not known. */
  readonly groupOf: (id: DatabaseId) => string | undefined
  /** Whether there is such a group. */
  readonly hasGroup: (group: string) => boolean
}

/** A group's server, and the settings that it does not have yet: it does not run, or has failed to take them over. */
interface GroupServer {
  /** Null until it is needed. */
  running: Promise<SqldBackend> | null
  readonly waiting: Map<DatabaseId, DatabaseSettings>
  /** Databases whose failure was reported. */
  readonly reported: Set<DatabaseId>
}

/**
 * libsql-server for many groups: each has a process and a folder of its own, so that what one group's clients do
 * (128 streams at a time, a statement without an end, a crash) is not felt by another's. A process starts with the first
 * request for one of the group's databases, and ends with the server, or with the group.
 */
export class SqldGroups implements DatabaseBackend {
  readonly kind = 'sqld' as const
  readonly hasTablePermissions = false
  readonly #options: SqldGroupsOptions
  readonly #servers = new Map<string, GroupServer>()
  #isClosed = false

  constructor(options: SqldGroupsOptions) {
    this.#options = options
  }

  /** Proves that the program is there; nothing runs yet. */
  async start(): Promise<string> {
    const { sqldPath, directory } = this.#options
    await mkdir(directory, { recursive: true })
    if (await isThere(join(directory, DATABASES)))
      throw new Error(
        'the data directory has databases of an older version, which kept all groups in one libsql-server: ' +
          'dump them with that version and create them anew',
      )
    return await versionOf(await findSqld(sqldPath === undefined ? {} : { sqldPath }))
  }

  resume(): void {}

  /** Folders of groups that are gone are removed when there is nothing left in them. */
  async setAside(known: ReadonlySet<DatabaseId>): Promise<readonly DatabaseId[]> {
    const names = await readdir(this.#options.directory).catch(() => [])
    for (const name of names.filter((each) => each.endsWith(REMOVED) || each.endsWith(COPY)))
      await removeFolder(this.#folderOf(name))
    const groups = names.filter((name) => IS_GROUP.test(name))
    const moved = await Promise.all(
      groups.map((group) => {
        // what a move that was interrupted has left is not known either
        const own = [...known].filter((id) => this.#options.groupOf(id) === group)
        return moveUnknownAside(join(this.#folderOf(group), DATABASES), new Set(own))
      }),
    )
    for (const [at, group] of groups.entries()) {
      const isKept = this.#options.hasGroup(group) || moved[at]?.length !== 0
      if (!isKept && (await this.#isEmpty(group))) await this.endGroup(group)
    }
    return moved.flat()
  }

  async create(id: DatabaseId, source: DatabaseSource, settings: DatabaseSettings): Promise<void> {
    const isAcross = source.type === 'fork' && this.#groupOf(source.from) !== this.#groupOf(id)
    if (!isAcross) return await (await this.#serverOf(id)).create(id, source, settings)
    const from = await this.#serverOf(source.from)
    await this.#copy(id, { from, of: source.from, to: await this.#serverOf(id) }, settings)
  }

  /** Makes a database of one server out of one of another. */
  async #copy(
    id: DatabaseId,
    { from, of, to }: { readonly from: SqldBackend; readonly of: DatabaseId; readonly to: SqldBackend },
    settings: DatabaseSettings,
  ): Promise<void> {
    const file = join(this.#options.directory, `${id}${COPY}`)
    await rm(file, { force: true })
    try {
      await from.exportTo(of, file)
      await to.create(id, { type: 'file', file }, settings)
    } finally {
      await rm(file, { force: true })
    }
  }

  /** Nothing is written meanwhile, and what clients have open in the old group ends. */
  async move(id: DatabaseId, group: string, settings: DatabaseSettings, commit: () => void): Promise<void> {
    const from = await this.#serverOf(id)
    const to = await this.#serverOfGroup(group)
    // what a move that failed has left
    await to.remove(id)
    try {
      await from.freeze(id, MOVING)
      await this.#copy(id, { from, of: id, to }, settings)
      commit()
    } catch (error) {
      await to.remove(id).catch(() => {})
      throw error
    }
    // the next start sets it aside otherwise
    await from.remove(id).catch((error: unknown) => console.error(String(error)))
  }

  async exportTo(id: DatabaseId, file: string): Promise<void> {
    await (await this.#serverOf(id)).exportTo(id, file)
  }

  /** A server that does not run gets them when it starts. */
  async applySettings(id: DatabaseId, settings: DatabaseSettings): Promise<boolean> {
    const group = this.#groupOf(id)
    const entry = this.#entry(group)
    entry.waiting.set(id, settings)
    if (entry.running !== null) return await applyWaiting(await entry.running, entry, id)
    return await hasDatabaseFile(join(this.#folderOf(group), DATABASES, id, 'data'))
  }

  async remove(id: DatabaseId): Promise<void> {
    this.#entry(this.#groupOf(id)).waiting.delete(id)
    await (await this.#serverOf(id)).remove(id)
  }

  async endAccess(id: DatabaseId, access: EndedAccess): Promise<void> {
    await (await this.#runningOf(id))?.endAccess(id, access)
  }

  async endRequests(): Promise<void> {
    const servers = [...this.#servers.values()].map(
      async ({ running }) => await (await running)?.endRequests(),
    )
    await Promise.allSettled(servers)
  }

  /** @throws Error when its server does not run: there is nothing new then */
  async sampleUsage(id: DatabaseId): Promise<UsageSample> {
    const server = await this.#runningOf(id)
    if (server === null) throw new Error('the database has not been used since the start')
    return await server.sampleUsage(id)
  }

  /** One that does not run is started when it is needed. */
  async troubleOf(id: DatabaseId): Promise<string | null> {
    return (await (await this.#runningOf(id))?.troubleOf(id)) ?? null
  }

  async topQueries(id: DatabaseId): Promise<readonly QueryUsage[]> {
    return (await (await this.#runningOf(id))?.topQueries(id)) ?? []
  }

  async handle(id: DatabaseId, request: ServiceRequest): Promise<ServiceResponse> {
    // it may have been removed since it was looked up
    if (this.#options.groupOf(id) === undefined)
      return errorResponse(404, `Namespace \`${id}\` doesn't exist`)
    const group = this.#groupOf(id)
    const server = await this.#serverOfGroup(group)
    const isUsable = await this.#tryToApply(server, this.#entry(group), id)
    return isUsable ? await server.handle(id, request) : errorResponse(500, UNUSABLE)
  }

  /** Ends the server of a group that is gone, and removes its folder. */
  async endGroup(group: string): Promise<void> {
    const running = this.#servers.get(group)?.running
    this.#servers.delete(group)
    await (await running?.catch(() => null))?.[Symbol.asyncDispose]()
    const folder = this.#folderOf(group)
    if (!(await isThere(folder))) return
    // at once, so that the rest can be told from a group after a crash
    await rename(folder, `${folder}${REMOVED}`)
    await removeFolder(`${folder}${REMOVED}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    const running = [...this.#servers.values()].map((server) => server.running?.catch(() => null))
    for (const server of running) await (await server)?.[Symbol.asyncDispose]()
  }

  #folderOf(group: string): string {
    return join(this.#options.directory, group)
  }

  #groupOf(id: DatabaseId): string {
    const group = this.#options.groupOf(id)
    if (group === undefined) throw new Error(`the group of database ${id} is not known`)
    return group
  }

  #entry(group: string): GroupServer {
    const known = this.#servers.get(group)
    if (known !== undefined) return known
    const made: GroupServer = { running: null, waiting: new Map(), reported: new Set() }
    this.#servers.set(group, made)
    return made
  }

  /** Null while its server does not run, and for a database that has been removed meanwhile. */
  async #runningOf(id: DatabaseId): Promise<SqldBackend | null> {
    const group = this.#options.groupOf(id)
    return group === undefined ? null : await this.#entry(group).running
  }

  /** The server of a database's group, which is started when it does not run. Rejects when it has not the database's settings. */
  async #serverOf(id: DatabaseId): Promise<SqldBackend> {
    const group = this.#groupOf(id)
    const server = await this.#serverOfGroup(group)
    await applyWaiting(server, this.#entry(group), id)
    return server
  }

  #serverOfGroup(group: string): Promise<SqldBackend> {
    const entry = this.#entry(group)
    if (this.#isClosed) return Promise.reject(new Error('the server is closed'))
    entry.running ??= this.#startServer(group, entry).catch((error: unknown) => {
      // the next request tries again
      entry.running = null
      throw error
    })
    return entry.running
  }

  /** A database whose settings cannot be applied, for instance because its file is damaged, is the only one that fails. */
  async #startServer(group: string, entry: GroupServer): Promise<SqldBackend> {
    const directory = this.#folderOf(group)
    const server = new SqldBackend({ ...this.#options, directory, remote: undefined })
    try {
      await server.start()
      for (const id of entry.waiting.keys()) await this.#tryToApply(server, entry, id)
      return server
    } catch (error) {
      await server[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Whether a database has its settings, without which it must not be used. */
  async #tryToApply(server: SqldBackend, entry: GroupServer, id: DatabaseId): Promise<boolean> {
    try {
      await applyWaiting(server, entry, id)
      entry.reported.delete(id)
      return true
    } catch (error) {
      if (!entry.reported.has(id)) this.#options.onNotice(id, `${UNUSABLE}: ${String(error)}`)
      entry.reported.add(id)
      return false
    }
  }

  /** Whether there are neither databases nor some that were set aside. */
  async #isEmpty(group: string): Promise<boolean> {
    const folder = this.#folderOf(group)
    if (await isThere(join(folder, `${DATABASES}-set-aside`))) return false
    return (await readdir(join(folder, DATABASES)).catch(() => [])).length === 0
  }
}

/** Applies the settings that a server does not have yet, if there are any; false when it has no such database. */
async function applyWaiting(server: SqldBackend, { waiting }: GroupServer, id: DatabaseId): Promise<boolean> {
  const settings = waiting.get(id)
  if (settings === undefined) return true
  const isThere = await server.applySettings(id, settings)
  // newer ones may have come meanwhile
  if (waiting.get(id) === settings) waiting.delete(id)
  return isThere
}

async function removeFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3 })
}

async function isThere(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  )
}
