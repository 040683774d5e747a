import { randomUUID } from 'node:crypto'
import { DirectoryLock } from '../base/directory-lock.ts'
import { checkOptionNames } from '../base/known-options.ts'
import { keyNamed, newMember, newOrganization, PLATFORM_KEY } from '../control-plane/bootstrap.ts'
import type { ControlPlane } from '../control-plane/control-plane.ts'
import type { OpenChange } from '../control-plane/pending-changes.ts'
import { Registry } from '../control-plane/registry/registry.ts'
import type { UserRow } from '../control-plane/registry/rows.ts'
import { ApiTokens } from '../control-plane/tokens/api-tokens.ts'

/** A person who is to use the platform API. */
export interface NewPlatformUser {
  /** Up to 39 of `a-z`, `0-9` and `-`. */
  readonly username: string
  /** @default `<username>@localhost` */
  readonly email?: string
}

const USERNAME = /^[a-z0-9][a-z0-9-]{0,38}$/

/** The platform API of a local server, and what in the cloud is done by its web pages, or by time. */
export class LocalPlatform {
  readonly #controlPlane: ControlPlane
  readonly url: string
  /** The owner's API token: it may do everything. */
  readonly token: string

  /** Made by `startLocalServer` only. */
  constructor(controlPlane: ControlPlane, url: string, token: string) {
    this.#controlPlane = controlPlane
    this.url = url
    this.token = token
  }

  /** Slug of the server's own organization. */
  get organization(): string {
    return this.#controlPlane.home.organization.slug
  }

  /**
   * Changes that are written down, but that the back end has failed to take over, with why. Each is tried again by
   * itself, after 1 s at first and at least once a minute, until this list is empty.
   */
  get openChanges(): readonly OpenChange[] {
    return this.#controlPlane.databases.openChanges
  }

  /**
   * Makes a user who has an unrestricted API token, an organization of the user's own name, and those that have invited
   * the address. Rejects when the name is taken, by a user or an organization.
   * @returns the token
   */
  async createUser(user: NewPlatformUser): Promise<string> {
    const { registry, apiTokens } = this.#controlPlane
    return makeUser(registry, apiTokens, user)
  }

  /** Puts a group of the server's organization to sleep, as a long time without use does: its databases answer 502. */
  async archiveGroup(name: string): Promise<void> {
    const { registry, home, databases } = this.#controlPlane
    const group = registry.findGroup(home.organization.id, name)
    if (group === undefined) throw new Error(`there is no group "${name}"`)
    registry.transaction(() => registry.groups.put({ ...group, isArchived: true }))
    const rows = registry.databases.rows.filter((row) => row.group === group.id && row.state !== 'deleting')
    await databases.applyAll(rows, { ends: 'all' })
  }
}

/** Makes a user in the data directory of a server that is not running. @returns the token */
export async function makeUserOf(directory: string, user: NewPlatformUser): Promise<string> {
  const lock = await DirectoryLock.acquire(directory)
  try {
    const registry = await Registry.open(directory)
    try {
      return makeUser(registry, new ApiTokens(registry, keyNamed(registry, PLATFORM_KEY)), user)
    } finally {
      registry.close()
    }
  } finally {
    await lock.release()
  }
}

function makeUser(registry: Registry, apiTokens: ApiTokens, user: NewPlatformUser): string {
  checkOptionNames('createUser', user, ['username', 'email'])
  const { username, email = `${username}@localhost` } = user
  if (!USERNAME.test(username)) throw new TypeError('createUser: a username is 1 to 39 of a-z, 0-9 and "-"')
  if (registry.findUser(username) !== undefined) throw new Error(`there is a user "${username}" already`)
  if (registry.findOrganization(username) !== undefined)
    throw new Error(`there is an organization "${username}" already`)
  const row: UserRow = { id: randomUUID(), username, name: username, email }
  const own = newOrganization(username, username, 'personal', 'starter')
  const token = apiTokens.make(row, { name: username, organization: null, group: null, scopes: null })
  const invites = registry.invites.rows.filter((invite) => invite.email === email)
  registry.transaction(() => {
    registry.users.put(row)
    registry.organizations.put(own)
    registry.members.put(newMember(own.id, row.id, 'owner'))
    registry.apiTokens.put(token)
    for (const { id, organization, role } of invites) {
      registry.members.put(newMember(organization, row.id, role))
      registry.invites.delete(id)
    }
  })
  return apiTokens.secretOf(token)
}
