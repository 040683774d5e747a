import { createPrivateKey, createPublicKey, randomUUID } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DatabaseId } from '../backend.ts'
import { NEW_CONFIGURATION } from './databases.ts'
import { pair, type Registry } from './registry/registry.ts'
import type { DatabaseRow, GroupRow, KeyPair, OrganizationRow, UserRow } from './registry/rows.ts'
import { LOCAL } from './rules/locations.ts'
import { newKeyPair } from './tokens/mint.ts'

export const DEFAULT_GROUP = 'default'
/** The key that signs API tokens, by the name it is kept under. */
export const PLATFORM_KEY = 'platform-key'
const OWNER = 'owner'

/** What belongs to whoever runs the server. */
export interface Home {
  readonly organization: OrganizationRow
  readonly owner: UserRow
}

/** The files of versions before there was a registry in SQLite. */
interface OldFiles {
  readonly databases: readonly OldDatabase[]
  readonly key: KeyPair | null
}

interface OldDatabase {
  readonly name: string
  readonly id: DatabaseId
  readonly settings: {
    readonly sizeLimitBytes: number | null
    readonly blockReads: boolean
    readonly blockWrites: boolean
    readonly blockReason: string | null
  }
}

/**
 * The organization of whoever runs the server, with its group `default`; made at the first start. A data directory of
 * an older version is taken over: its databases become those of the group, and its key the key of the group, so that
 * tokens stay good.
 */
export async function openHome(registry: Registry, directory: string, slug: string): Promise<Home> {
  const known = registry.setting('home')
  if (known === undefined) {
    const old = await readOldFiles(directory)
    registry.transaction(() => makeHome(registry, slug, old))
  }
  // a crash may have come between
  await removeOldFiles(directory)
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

function makeHome(registry: Registry, slug: string, old: OldFiles): void {
  const owner = { id: randomUUID(), username: OWNER, name: 'Owner', email: 'owner@localhost' }
  const organization = newOrganization(slug, slug, 'personal', 'scaler')
  const group = newGroup(organization.id, DEFAULT_GROUP, LOCAL, old.key ?? newKeyPair())
  registry.users.put(owner)
  registry.organizations.put(organization)
  registry.members.put(newMember(organization.id, owner.id, 'owner'))
  registry.groups.put(group)
  for (const database of old.databases) registry.databases.put(adopt(database, group))
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

function adopt({ name, id, settings }: OldDatabase, group: GroupRow): DatabaseRow {
  const now = Date.now()
  return {
    id,
    name,
    organization: group.organization,
    group: group.id,
    state: 'ready',
    configuration: { ...NEW_CONFIGURATION, ...settings },
    parent: null,
    isSchema: false,
    schema: null,
    key: newKeyPair(),
    createdAt: now,
  }
}

export const OLD_REGISTRY_FILE = 'registry.json'
const OLD_KEY = 'signing-key.pem'

async function readOldFiles(directory: string): Promise<OldFiles> {
  const registry = await readIfThere(join(directory, OLD_REGISTRY_FILE))
  const key = await readIfThere(join(directory, OLD_KEY))
  return {
    databases: registry === null ? [] : (JSON.parse(registry) as { databases: OldDatabase[] }).databases,
    key: key === null ? null : keyPairOf(key),
  }
}

function keyPairOf(privatePem: string): KeyPair {
  const publicKey = createPublicKey(createPrivateKey(privatePem))
  return { privatePem, publicPem: publicKey.export({ type: 'spki', format: 'pem' }).toString() }
}

async function readIfThere(path: string): Promise<string | null> {
  return await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
}

async function removeOldFiles(directory: string): Promise<void> {
  for (const name of [OLD_REGISTRY_FILE, OLD_KEY]) await rm(join(directory, name), { force: true })
}
