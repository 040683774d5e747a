import { randomUUID } from 'node:crypto'
import { type KeyPair, newKeyPair } from '@batonsql/server-common/auth'
import { newGroup, newMember, newOrganization } from './registry/new-rows.ts'
import type { Registry } from './registry/registry.ts'
import type { OrganizationRow, UserRow } from './registry/rows.ts'
import { LOCAL } from './rules/locations.ts'

export const DEFAULT_GROUP = 'default'
/** Name under which the key that signs API tokens is stored. */
export const PLATFORM_KEY = 'platform-key'
const OWNER_USERNAME = 'owner'

/** The organization and user of the server's operator, which every registry has. */
export interface OperatorAccount {
  readonly organization: OrganizationRow
  readonly owner: UserRow
}

/** Returns the operator's account, which is created with the group `default` on the first start. */
export function openOperatorAccount(registry: Registry, slug: string): OperatorAccount {
  const storedId = registry.getSetting('home')
  if (storedId === undefined) registry.transaction(() => createOperatorAccount(registry, slug))
  const organization = registry.organizations.get(registry.getSetting('home') ?? '')
  const owner = registry.users.get(registry.getSetting('owner') ?? '')
  if (organization === undefined || owner === undefined)
    throw new Error("the server's organization is missing from the registry")
  if (storedId !== undefined && organization.slug !== slug)
    throw new Error(`the data directory belongs to the organization "${organization.slug}", not "${slug}"`)
  return { organization, owner }
}

/**
 * Records the kind of back end that stores the databases. A back end of another kind would treat all databases as lost, and would
 * never finish interrupted creations and removals. @throws Error if another kind is recorded
 */
export function claimBackend(registry: Registry, kind: string): void {
  const storedKind = registry.getSetting('backend')
  if (storedKind === kind) return
  if (storedKind !== undefined && registry.databases.rows.length > 0)
    throw new Error(
      `the databases of this data directory belong to the back end "${storedKind}", not "${kind}"`,
    )
  registry.putSetting('backend', kind)
}

/** Returns the key pair stored under a name, creating it if necessary. */
export function getOrCreateKey(registry: Registry, name: string): KeyPair {
  const stored = registry.getSetting(name)
  if (stored !== undefined) return JSON.parse(stored) as KeyPair
  const key = newKeyPair()
  registry.putSetting(name, JSON.stringify(key))
  return key
}

function createOperatorAccount(registry: Registry, slug: string): void {
  const owner = { id: randomUUID(), username: OWNER_USERNAME, name: 'Owner', email: 'owner@localhost' }
  const organization = newOrganization(slug, slug, 'personal', 'scaler')
  const group = newGroup(organization.id, DEFAULT_GROUP, LOCAL, newKeyPair())
  registry.users.put(owner)
  registry.organizations.put(organization)
  registry.members.put(newMember(organization.id, owner.id, 'owner'))
  registry.groups.put(group)
  registry.putSetting('home', organization.id)
  registry.putSetting('owner', owner.id)
}
