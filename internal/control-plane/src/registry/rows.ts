import type { KeyPair } from '@batonsql/server-common/auth'
import type { DatabaseId, DatabaseSettings } from '@batonsql/server-common/backend'
import type { Scope } from '../rules/scopes.ts'

// A field that is named after another row (`organization`, `user`, `group`, `database`) holds the id of that row, not its name or slug.

/** Role of a member: a viewer reads, a member manages databases, an admin also manages members, an owner can do everything. */
export type Role = 'viewer' | 'member' | 'admin' | 'owner'

export interface UserRow {
  readonly id: string
  readonly username: string
  readonly name: string
  readonly email: string
}

export interface OrganizationRow {
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly type: 'personal' | 'team'
  readonly plan: string
  readonly timeline: 'monthly' | 'yearly'
  readonly overages: boolean
  readonly requireMfa: boolean
  /** Named as in the service, which uses `blockedReads` for an organization and `blockReads` for a database. */
  readonly blockedReads: boolean
  readonly blockedWrites: boolean
  /** In ms since the Unix epoch, like all times here. */
  readonly createdAt: number
}

export interface MemberRow {
  /** `<organization>/<user>` */
  readonly id: string
  readonly organization: string
  readonly user: string
  readonly role: Role
}

export interface InviteRow {
  /** A decimal number as a string, as in the service. */
  readonly id: string
  readonly organization: string
  readonly email: string
  readonly role: Role
  readonly createdAt: number
}

export interface GroupRow {
  readonly id: string
  readonly organization: string
  readonly name: string
  /** Code of a location. */
  readonly primary: string
  /** Includes the primary. */
  readonly locations: readonly string[]
  readonly deleteProtection: boolean
  readonly isArchived: boolean
  /** Signs tokens for all databases of the group. */
  readonly key: KeyPair
  readonly createdAt: number
}

/**
 * `creating` while the back end creates the database, `deleting` while it removes it, `lost` if it no longer has it, otherwise
 * `ready`. A lost database is never silently recreated under the same name.
 */
export type DatabaseState = 'creating' | 'ready' | 'deleting' | 'lost'

export interface DatabaseConfiguration extends Omit<DatabaseSettings, 'isSchema' | 'keys'> {
  readonly deleteProtection: boolean
  readonly allowedIps: readonly string[]
  readonly allowedAwsVpcIds: readonly string[]
}

export interface DatabaseRow {
  readonly id: DatabaseId
  readonly organization: string
  readonly group: string
  readonly name: string
  readonly state: DatabaseState
  readonly configuration: DatabaseConfiguration
  /** The database that it was copied from. */
  readonly parent: { readonly id: DatabaseId; readonly name: string; readonly branchedAt: number } | null
  readonly isSchema: boolean
  /** Id of the database whose schema it shares. */
  readonly schema: DatabaseId | null
  /** Locations of its replicas, in addition to those of the group. Absent in rows from older versions. */
  readonly replicas?: readonly string[]
  /** Signs tokens for this database only. */
  readonly key: KeyPair
  readonly createdAt: number
}

/** A copy of a database in a file of the data directory. */
export interface SnapshotRow {
  readonly id: string
  /** Updated when a snapshot is restored, because the restored database has a new id. */
  readonly database: DatabaseId
  readonly name: string
  readonly bytes: number
  readonly createdAt: number
}

/** Key set (JWKS) of an issuer whose tokens the databases of an organization accept. */
export interface KeySetRow {
  readonly id: string
  readonly organization: string
  readonly name: string
  readonly url: string
}

export interface ApiTokenRow {
  readonly id: string
  readonly user: string
  readonly name: string
  /** Null for an unrestricted token. */
  readonly organization: string | null
  /** Null unless it is scoped to a group. */
  readonly group: string | null
  readonly scopes: readonly Scope[] | null
  readonly createdAt: number
}
