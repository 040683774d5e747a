import type { KeyPair } from '../../auth/jwt.ts'
import type { DatabaseId } from '../../backend/backend.ts'

/** What a member may do: a viewer looks, a member works with databases, an admin with people, an owner with everything. */
export type Role = 'viewer' | 'member' | 'admin' | 'owner'

/** What a group-scoped token may do. */
export type Scope =
  | 'metrics'
  | 'read'
  | 'db:create'
  | 'db:delete'
  | 'db:configure'
  | 'db:mint-token'
  | 'db:rotate-creds'
  | 'group:configure'
  | 'group:mint-token'
  | 'group:rotate-creds'

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
  readonly blockedReads: boolean
  readonly blockedWrites: boolean
  /** What the billing routes were told about the customer. */
  readonly customer: Readonly<Record<string, unknown>> | null
  /** When it was made, in ms since 1970; so are all times here. */
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
  /** A number, as text. */
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
  readonly primary: string
  /** The primary is one of them. */
  readonly locations: readonly string[]
  readonly deleteProtection: boolean
  readonly isArchived: boolean
  /** Signs tokens that are good for every database of the group. */
  readonly key: KeyPair
  readonly createdAt: number
}

/**
 * `creating` while the back end makes it, `ready`, `deleting` while the back end removes it. `lost`: the back end no
 * longer has what was ready; it is never made anew under the same name without anybody noticing.
 */
export type DatabaseState = 'creating' | 'ready' | 'deleting' | 'lost'

/** What can be set on a database. */
export interface DatabaseConfiguration {
  readonly sizeLimitBytes: number | null
  readonly allowAttach: boolean
  readonly blockReads: boolean
  readonly blockWrites: boolean
  readonly blockReason: string | null
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
  /** The database it began as a copy of. */
  readonly parent: { readonly id: string; readonly name: string; readonly branchedAt: number } | null
  readonly isSchema: boolean
  /** The id of the database whose schema it has. */
  readonly schema: string | null
  /** Signs tokens for it alone. */
  readonly key: KeyPair
  readonly createdAt: number
}

/** The key set (JWKS) of an issuer whose tokens the databases of an organization accept. */
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
