import type { Raw } from './view.ts'

// What the service answers, in camel case. Fields that are not here come all the same; see also `raw` of each object.

/** One of the known words, or one that was added since. */
export type Known<Words extends string> = Words | (string & {})

export interface Database extends Raw {
  readonly name: string
  /** UUID; with other engines than SQLite's it tells which. */
  readonly dbId: string
  /** Host of the database: always this one, never one put together from its name. */
  readonly hostname: string
  readonly group: string
  readonly primaryRegion: string
  readonly blockReads: boolean
  readonly blockWrites: boolean
  readonly deleteProtection: boolean
  /** What it was branched from; null for a database that is no branch. */
  readonly parent: { readonly id: string; readonly name: string; readonly branchedAt: string } | null
  /** @deprecated by the service */
  readonly regions?: readonly string[]
  // seen, but not documented
  readonly archived?: boolean
  readonly sleeping?: boolean
  readonly isSchema?: boolean
  readonly schema?: string | null
  readonly version?: string
  readonly type?: string
}

/** What the creation of a database answers. */
export type CreatedDatabase = Pick<Database, 'name' | 'dbId' | 'hostname'> & Raw

export interface DatabaseConfiguration extends Raw {
  /** Bytes, or a number with a unit: `256mb`. */
  readonly sizeLimit: string
  readonly blockReads: boolean
  readonly blockWrites: boolean
  readonly deleteProtection: boolean
  readonly allowedIps: readonly string[]
  readonly allowedAwsVpcIds: readonly string[]
  /** @deprecated by the service */
  readonly allowAttach?: boolean
}

export interface Instance extends Raw {
  readonly uuid: string
  readonly name: string
  readonly type: Known<'primary' | 'replica'>
  readonly region: string
  readonly hostname: string
}

export interface UsageFigures {
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly storageBytes: number
  readonly bytesSynced: number
}

export interface DatabaseUsage extends Raw {
  readonly uuid: string
  readonly instances: readonly { readonly uuid: string; readonly usage: UsageFigures }[]
  /** Null when the service sent neither of its two names for it. */
  readonly total: UsageFigures | null
}

export interface QueryStatistics extends Raw {
  readonly query: string
  readonly rowsRead: number
  readonly rowsWritten: number
}

export interface Group extends Raw {
  readonly name: string
  readonly uuid: string
  /** Code of the location of its primary. */
  readonly primary: string
  readonly deleteProtection: boolean
  /** @deprecated by the service */
  readonly locations?: readonly string[]
  /** @deprecated by the service */
  readonly version?: string
  // seen, but not documented
  readonly archived?: boolean
}

export interface GroupConfiguration extends Raw {
  readonly deleteProtection: boolean
}

export interface Organization extends Raw {
  readonly name: string
  readonly slug: string
  readonly type: Known<'personal' | 'team'>
  readonly overages: boolean
  readonly requireMfa: boolean
  readonly blockedReads: boolean
  readonly blockedWrites: boolean
  readonly planId: string
  readonly planTimeline: Known<'monthly' | 'yearly'>
  /** Marketplace that manages it; empty for none. */
  readonly platform: string
}

export interface OrganizationUsage extends Raw {
  readonly uuid: string
  /** What was used in this period. The documentation calls it the plan's allowance; that is in `plans()`. */
  readonly usage: UsageFigures & {
    readonly databases: number
    readonly locations: number
    readonly groups: number
  }
  readonly databases: readonly DatabaseUsage[]
}

export interface Plan extends Raw {
  readonly name: string
  readonly price: string
  readonly prices: readonly { readonly value: string; readonly timeline: string }[]
  /** 0 means without limit. */
  readonly quotas: {
    readonly rowsRead: number
    readonly rowsWritten: number
    readonly databases: number | null
    readonly locations: number
    readonly storage: number
    readonly groups: number
    readonly bytesSynced: number
  }
}

export interface Subscription extends Raw {
  readonly name: string
  readonly overages: boolean
  readonly plan: string
  readonly timeline: Known<'monthly' | 'yearly'>
}

export interface Invoice extends Raw {
  readonly invoiceNumber: string
  readonly amountDue: string
  readonly dueDate: string
  readonly paidAt: string
  readonly paymentFailedAt: string
  /** URL. */
  readonly invoicePdf: string
}

export type AssignableRole = Known<'admin' | 'member' | 'viewer'>
export type Role = Known<'owner' | 'admin' | 'member' | 'viewer'>

export interface Member extends Raw {
  readonly username: string
  readonly email: string
  readonly role: Role
}

export interface Invite extends Raw {
  readonly id: number
  readonly email: string
  readonly role: AssignableRole
  /** ISO 8601. */
  readonly createdAt: string
}

export interface InvitedMember extends Raw {
  readonly email: string
  readonly role: AssignableRole
  readonly organization: string
}

/** What a token of one group may do. */
export type Scope =
  | 'read'
  | 'db:create'
  | 'db:delete'
  | 'db:configure'
  | 'db:mint-token'
  | 'db:rotate-creds'
  | 'group:configure'
  | 'group:mint-token'
  | 'group:rotate-creds'

/** Names for several scopes: `read-only` is `read`, `full-access` is all. The service stores what they stand for. */
export type ScopePreset = 'read-only' | 'full-access'

export interface ApiToken extends Raw {
  readonly id: string
  readonly name: string
  /** Slug of the one organization that it is for; absent for a token for all. */
  readonly organization?: string
  readonly group?: string
  readonly scopes?: readonly Known<Scope>[]
  /** `YYYY-MM-DD`. */
  readonly createdAt: string
}

export interface OrganizationApiToken extends ApiToken {
  readonly owner: { readonly username: string; readonly email: string }
}

/** The only time that the token itself is shown. */
export interface CreatedApiToken extends Raw {
  readonly id: string
  readonly name: string
  readonly token: string
}

export interface AuditLog extends Raw {
  /** Such as `db-create`. */
  readonly code: string
  readonly message: string
  /** `cli` or `web`: told from the header `user-agent`. */
  readonly origin: string
  readonly author: string
  /** ISO 8601. */
  readonly createdAt: string
  /** As the service sent it. */
  readonly data: Readonly<Record<string, unknown>>
}

export interface User extends Raw {
  readonly username: string
  readonly name: string
  readonly email: string
  readonly avatarUrl: string
  readonly plan: string
  readonly mfa: boolean
  readonly hasPendingInvites: boolean
}
