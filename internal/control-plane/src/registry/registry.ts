import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { buildHostLabel } from '../rules/names.ts'
import { isEmptyFile, rejectLostRegistry } from './lost-registry.ts'
import { RegistryFile } from './registry-file.ts'
import type {
  ApiTokenRow,
  DatabaseRow,
  GroupRow,
  InviteRow,
  KeySetRow,
  MemberRow,
  OrganizationRow,
  SnapshotRow,
  UserRow,
} from './rows.ts'
import { createTables } from './schema.ts'
import { Table } from './table.ts'

/** Name of the file in the data directory. */
export const REGISTRY_FILE = 'registry.db'

/**
 * Stores what the control plane manages: users, organizations, and databases with their state. Everything is kept both in an
 * SQLite file and in memory, so that lookups during a request do not read the file.
 */
export class Registry {
  readonly file: RegistryFile
  /** In loading order: the databases' index `findByLabel` needs the organizations. */
  readonly #tables: { load(): void }[] = []
  readonly users = this.#table<UserRow>('user')
  readonly organizations = this.#table<OrganizationRow>('organization')
  readonly members = this.#table<MemberRow>('member')
  readonly invites = this.#table<InviteRow>('invite')
  readonly groups = this.#table<GroupRow>('database_group')
  readonly databases = this.#table<DatabaseRow>('database')
  readonly snapshots = this.#table<SnapshotRow>('snapshot')
  readonly apiTokens = this.#table<ApiTokenRow>('api_token')
  readonly keySets = this.#table<KeySetRow>('key_set')
  readonly findOrganization = this.organizations.index(({ slug }) => slug)
  readonly findUser = this.users.index(({ username }) => username)
  readonly #findGroup = this.groups.index(({ organization, name }) => compositeKey(organization, name))
  readonly #findDatabase = this.databases.index(({ organization, name, state }) =>
    state === 'deleting' ? null : compositeKey(organization, name),
  )
  /** Finds a database by the first label of its host name, whatever its state, unless it is being removed. */
  readonly findByLabel = this.databases.index(({ organization, name, state }) => {
    const slug = this.organizations.get(organization)?.slug
    return state === 'deleting' || slug === undefined ? null : buildHostLabel(name, slug)
  })
  readonly #findSnapshot = this.snapshots.index(({ database, name }) => compositeKey(database, name))
  readonly #findToken = this.apiTokens.index(({ user, name }) => compositeKey(user, name))

  private constructor(file: RegistryFile) {
    this.file = file
  }

  /**
   * Opens the registry of a data directory, or creates it.
   * @param isDurable whether acknowledged changes must survive a power failure
   * @throws Error if it lists none of the databases in the directory
   */
  static async open(directory: string, isDurable = true): Promise<Registry> {
    await mkdir(directory, { recursive: true })
    // checked first, so that no file has to be removed before a backup is restored
    if (isEmptyFile(join(directory, REGISTRY_FILE))) await rejectLostRegistry(directory, REGISTRY_FILE)
    const file = new RegistryFile(join(directory, REGISTRY_FILE), isDurable)
    try {
      createTables(file)
      const registry = new Registry(file)
      registry.#load()
      if (registry.databases.rows.length === 0) await rejectLostRegistry(directory, REGISTRY_FILE)
      return registry
    } catch (error) {
      file.close()
      throw error
    }
  }

  /** Returns the database with this name, whatever its state, unless it is being removed. */
  findDatabase(organization: string, name: string): DatabaseRow | undefined {
    return this.#findDatabase(compositeKey(organization, name))
  }

  findGroup(organization: string, name: string): GroupRow | undefined {
    return this.#findGroup(compositeKey(organization, name))
  }

  findSnapshot(database: string, name: string): SnapshotRow | undefined {
    return this.#findSnapshot(compositeKey(database, name))
  }

  findToken(user: string, name: string): ApiTokenRow | undefined {
    return this.#findToken(compositeKey(user, name))
  }

  findMembership(organization: string, user: string): MemberRow | undefined {
    return this.members.get(compositeKey(organization, user))
  }

  /** Commits all changes of `work`, or none. Conditions that it relies on must be checked in the same turn of the event loop. */
  transaction(work: () => void): void {
    try {
      this.file.transaction(work)
    } catch (error) {
      this.#load()
      throw error
    }
  }

  /** Returns the text stored under a name. */
  getSetting(name: string): string | undefined {
    return this.file.all<{ value: string }>('SELECT value FROM setting WHERE name = ?', [name])[0]?.value
  }

  putSetting(name: string, value: string): void {
    this.file.run('INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)', [name, value])
  }

  close(): void {
    this.file.close()
  }

  #table<Row extends { readonly id: string }>(kind: string): Table<Row> {
    const table = new Table<Row>(this, kind)
    this.#tables.push(table)
    return table
  }

  #load(): void {
    for (const table of this.#tables) table.load()
  }
}

/** Returns a key of two parts; ids and slugs contain no slash. */
export function compositeKey(owner: string, name: string): string {
  return `${owner}/${name}`
}
