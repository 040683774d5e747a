import { randomUUID } from 'node:crypto'
import { type KeyPair, newKeyPair } from '../auth/jwt.ts'
import { pair, type Registry } from './registry/registry.ts'
import type { GroupRow, OrganizationRow, UserRow } from './registry/rows.ts'
import { LOCAL } from './rules/locations.ts'

export const DEFAULT_GROUP = 'default'
/** The key that signs API tokens, by the name it is kept under. */
export const PLATFORM_KEY = 'platform-key'
const OWNER = 'owner'

/** What belongs to the server's operator. */
export interface Home {
  readonly organization: OrganizationRow
  readonly owner: UserRow
}

/** The organization of the server's operator, with its group `default`; made at the first start. */
export function openHome(registry: Registry, slug: string): Home {
  const known = registry.setting('home')
  if (known === undefined) registry.transaction(() => makeHome(registry, slug))
  const organization = registry.organizations.get(registry.setting('home') ?? '')
  const owner = registry.users.get(registry.setting('owner') ?? '')
  if (organization === undefined || owner === undefined)
    throw new Error('the registry has lost its organization')
  if (known !== undefined && organization.slug !== slug)
    throw new Error(`the data directory belongs to the organization "${organization.slug}", not "${slug}"`)
  return { organization, owner }
}

/**
 * Which kind of back end holds the databases is written down at the start: to another one all of them would look lost,
 * and what was half made or half removed would stay so. @throws Error for another one than that which holds some
 */
export function claimBackend(registry: Registry, kind: string): void {
  const known = registry.setting('backend')
  if (known === kind) return
  if (known !== undefined && registry.databases.rows.length > 0)
    throw new Error(`the databases of this data directory are held by the back end "${known}", not "${kind}"`)
  registry.putSetting('backend', kind)
}

/** The key pair that is kept under a name; made when it is not there. */
export function keyNamed(registry: Registry, name: string): KeyPair {
  const known = registry.setting(name)
  if (known !== undefined) return JSON.parse(known) as KeyPair
  const key = newKeyPair()
  registry.putSetting(name, JSON.stringify(key))
  return key
}

function makeHome(registry: Registry, slug: string): void {
  const owner = { id: randomUUID(), username: OWNER, name: 'Owner', email: 'owner@localhost' }
  const organization = newOrganization(slug, slug, 'personal', 'scaler')
  const group = newGroup(organization.id, DEFAULT_GROUP, LOCAL, newKeyPair())
  registry.users.put(owner)
  registry.organizations.put(organization)
  registry.members.put(newMember(organization.id, owner.id, 'owner'))
  registry.groups.put(group)
  registry.putSetting('home', organization.id)
  registry.putSetting('owner', owner.id)
}

export function newOrganization(
  slug: string,
  name: string,
  type: OrganizationRow['type'],
  plan: string,
): OrganizationRow {
  return {
    id: randomUUID(),
    slug,
    name,
    type,
    plan,
    timeline: 'monthly',
    overages: false,
    requireMfa: false,
    blockedReads: false,
    blockedWrites: false,
    customer: null,
    createdAt: Date.now(),
  }
}

export function newGroup(organization: string, name: string, primary: string, key: KeyPair): GroupRow {
  return {
    id: randomUUID(),
    organization,
    name,
    primary,
    locations: [primary],
    deleteProtection: false,
    isArchived: false,
    key,
    createdAt: Date.now(),
  }
}

export function newMember<R>(organization: string, user: string, role: R) {
  return { id: pair(organization, user), organization, user, role }
}
