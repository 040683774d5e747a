import { randomUUID } from 'node:crypto'
import type { KeyPair } from '@batonsql/server-common/auth'
import { compositeKey } from './registry.ts'
import type { GroupRow, OrganizationRow } from './rows.ts'

/** Returns the row of a new organization, which the caller stores. */
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
    createdAt: Date.now(),
  }
}

/** Returns the row of a new group in one location, which the caller stores. @param key signs tokens for its databases */
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

/** Returns the row of a new membership, which the caller stores. */
export function newMember<R>(organization: string, user: string, role: R) {
  return { id: compositeKey(organization, user), organization, user, role }
}
