import { randomUUID } from 'node:crypto'
import {
  type ApiTokens,
  type ControlPlane,
  isSlug,
  newMember,
  newOrganization,
  type PendingChange,
  type Registry,
  type UserRow,
} from '@batonsql/control-plane'
import { checkOption, checkOptions } from '@batonsql/options'

/** A new user of the platform API. */
export interface NewPlatformUser {
  /** 1 to 39 characters: `a-z`, `0-9` and `-`, without a `-` at the beginning or end. Also the slug of an organization. */
  readonly username: string
  /** @default `<username>@localhost` */
  readonly email?: string
}

/** Returns the platform API of a server. A function, so that the declarations of the package do not contain the control plane. */
export let newPlatform: (controlPlane: ControlPlane, url: string) => LocalPlatform

/** The platform API of a local server, and operations that the cloud offers on its web pages or performs automatically. */
export class LocalPlatform {
  readonly #controlPlane: ControlPlane
  readonly url: string
  /** API token of the owner, with unrestricted access. */
  readonly token: string

  static {
    newPlatform = (controlPlane, url) => new LocalPlatform(controlPlane, url)
  }

  private constructor(controlPlane: ControlPlane, url: string) {
    this.#controlPlane = controlPlane
    this.url = url
    this.token = controlPlane.getOwnerToken()
  }

  /** Slug of the server's own organization. */
  get organization(): string {
    return this.#controlPlane.operator.organization.slug
  }

  /**
   * Recorded changes that the back end has failed to apply, with the reason. Each is retried automatically, first after 1 s and
   * then at least once a minute, until the list is empty.
   */
  get pendingChanges(): readonly PendingChange[] {
    return this.#controlPlane.databases.pendingChanges
  }

  /**
   * Creates a user with an unrestricted API token and an organization of the same name, and accepts pending invitations for
   * the email address. Rejects if the name is taken by a user or an organization.
   * @returns the token
   */
  async createUser(user: NewPlatformUser): Promise<string> {
    const { registry, apiTokens } = this.#controlPlane
    return addUser(registry, apiTokens, user)
  }

  /** Archives a group of the server's organization, as happens after long disuse: its databases respond with 502. */
  async archiveGroup(name: string): Promise<void> {
    const { registry, operator, databases } = this.#controlPlane
    const group = registry.findGroup(operator.organization.id, name)
    if (group === undefined) throw new Error(`group "${name}" does not exist`)
    registry.transaction(() => registry.groups.put({ ...group, isArchived: true }))
    const rows = registry.databases.rows.filter((row) => row.group === group.id && row.state !== 'deleting')
    await databases.applyAll(rows, { revoked: 'all' })
  }
}

/** Creates a user. @returns the user's API token */
export function addUser(registry: Registry, apiTokens: ApiTokens, user: NewPlatformUser): string {
  checkOptions(user, { username: 'string', email: 'string' }, 'createUser')
  const { username, email = `${username}@localhost` } = user
  checkOption('createUser: the username', username, 'string')
  // it is also the slug of an organization
  if (!isSlug(username))
    throw new TypeError(
      'createUser: a username must be 1 to 39 characters of a-z, 0-9 and "-", without a "-" at the beginning or end',
    )
  if (registry.findUser(username) !== undefined) throw new Error(`user "${username}" already exists`)
  if (registry.findOrganization(username) !== undefined)
    throw new Error(`organization "${username}" already exists`)
  const row: UserRow = { id: randomUUID(), username, name: username, email }
  const organization = newOrganization(username, username, 'personal', 'starter')
  const token = apiTokens.createRow(row, { name: username, organization: null, group: null, scopes: null })
  const invites = registry.invites.rows.filter((invite) => invite.email === email)
  registry.transaction(() => {
    registry.users.put(row)
    registry.organizations.put(organization)
    registry.members.put(newMember(organization.id, row.id, 'owner'))
    registry.apiTokens.put(token)
    for (const { id, organization: organizationId, role } of invites) {
      registry.members.put(newMember(organizationId, row.id, role))
      registry.invites.delete(id)
    }
  })
  return apiTokens.getSecret(token)
}
