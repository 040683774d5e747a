import type { Raw } from './view.ts'

// Responses from the service, in camel case. Other fields are kept too; see also `raw` on each object.

/** A known word, or one that was added later. */
export type Known<Words extends string> = Words | (string & {})
/** Like `Partial`, but undefined is allowed even with `exactOptionalPropertyTypes`. */
export type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined }

/** How access to a database is limited. */
interface AccessLimits {
  /** Whether all reads are rejected. */
  readonly blockReads: boolean
  /** Whether all writes are rejected. */
  readonly blockWrites: boolean
  /** Whether its deletion is rejected. */
  readonly deleteProtection: boolean
}

/** A database, with its address and its group. */
export interface Database extends Raw, AccessLimits {
  readonly name: string
  /** UUID. It changes when a snapshot is restored. */
  readonly dbId: string
  /** Host of the database, with port and path if the server has them; see `databaseUrl`. Do not derive it from the name. */
  readonly hostname: string
  /** Name of its group. */
  readonly group: string
  /** Code of the location of its primary. */
  readonly primaryRegion: string
  /** The database from which it was branched, and when (ISO 8601); null if there is none. */
  readonly parent: { readonly id: string; readonly name: string; readonly branchedAt: string } | null
  /** Codes of the locations of its group. @deprecated by the service */
  readonly regions?: readonly string[]
  // observed, but not documented
  /** Whether its group was archived because it was not used. */
  readonly archived?: boolean
  readonly sleeping?: boolean
  /** Whether it is the parent of a multi-database schema. */
  readonly isSchema?: boolean
  /** Name of the parent whose schema it shares; null if there is none. */
  readonly schema?: string | null
  /** Version of its server. */
  readonly version?: string
  /** Such as `logical`. */
  readonly type?: string
}

/** Response to the creation of a database. */
export type CreatedDatabase = Pick<Database, 'name' | 'dbId' | 'hostname'> & Raw

/** Limits, blocks and protection of a database. */
export interface DatabaseConfiguration extends Raw, AccessLimits {
  /** Bytes, or a number with a unit: `256mb`; empty for no limit. */
  readonly sizeLimit: string
  /** Addresses from which it can be used; empty for all. */
  readonly allowedIps: readonly string[]
  /** Ids of the AWS VPCs from which it can be used; empty for all. */
  readonly allowedAwsVpcIds: readonly string[]
  /** Whether other databases can attach it. @deprecated by the service */
  readonly allowAttach?: boolean
}

/** The primary of a database, or one of its replicas. */
export interface Instance extends Raw {
  readonly uuid: string
  readonly name: string
  readonly type: Known<'primary' | 'replica'>
  /** Code of its location. */
  readonly region: string
  readonly hostname: string
}

/** A copy of a database that a server of Baton keeps. */
export interface Snapshot extends Raw {
  readonly name: string
  /** ISO 8601. */
  readonly createdAt: string
  /** Size of the copy. */
  readonly bytes: number
}

/** Usage in a period. */
export interface UsageFigures {
  readonly rowsRead: number
  readonly rowsWritten: number
  /** Storage used, in bytes. */
  readonly storageBytes: number
  /** Bytes synchronized. */
  readonly bytesSynced: number
}

/** Usage of a database in a period, in total and by each of its instances. */
export interface DatabaseUsage extends Raw {
  /** Id of the database. */
  readonly uuid: string
  readonly instances: readonly { readonly uuid: string; readonly usage: UsageFigures }[]
  /** Null if the service sent neither `total` nor `usage`. */
  readonly total: UsageFigures | null
}

/** Rows that a query has read and written. */
export interface QueryStatistics extends Raw {
  /** Its SQL. */
  readonly query: string
  readonly rowsRead: number
  readonly rowsWritten: number
}

/** Databases that have the same locations. */
export interface Group extends Raw {
  readonly name: string
  readonly uuid: string
  /** Code of the location of its primary. */
  readonly primary: string
  /** Whether its deletion is rejected. */
  readonly deleteProtection: boolean
  /** Codes of its locations. @deprecated by the service */
  readonly locations?: readonly string[]
  /** Version of its server. @deprecated by the service */
  readonly version?: string
  // observed, but not documented
  /** Whether it was archived because it was not used. */
  readonly archived?: boolean
}

export interface GroupConfiguration extends Raw {
  /** Whether the deletion of the group is rejected. */
  readonly deleteProtection: boolean
}

/** An organization, or the personal account of a user. */
export interface Organization extends Raw {
  readonly name: string
  /** Name in paths and options. */
  readonly slug: string
  readonly type: Known<'personal' | 'team'>
  /** Its plan, such as `scaler`. */
  readonly planId: string
  readonly planTimeline: Known<'monthly' | 'yearly'>
  /** Whether usage beyond the plan is permitted. */
  readonly overages: boolean
  /** Whether its members need multi-factor authentication. */
  readonly requireMfa: boolean
  /** Whether the service rejects all reads from its databases. */
  readonly blockedReads: boolean
  /** Whether the service rejects all writes to its databases. */
  readonly blockedWrites: boolean
  /** Marketplace that manages it, such as `vercel`; empty if there is none. */
  readonly platform: string
}

/** Usage of an organization: that of its databases, and how many databases, locations and groups it has. */
export interface OrganizationUsageFigures extends UsageFigures {
  readonly databases: number
  readonly locations: number
  readonly groups: number
}

/** Usage of an organization and of each of its databases, in this period. */
export interface OrganizationUsage extends Raw {
  /** Id of the organization. */
  readonly uuid: string
  /** Usage in this period: the documentation calls it the plan's allowance, but the service's own tools read it as usage. */
  readonly usage: OrganizationUsageFigures
  /** Quotas of the plan, 0 for unlimited. Sent by the local server; for the cloud service see `plans()`. */
  readonly allowance?: OrganizationUsageFigures
  readonly databases: readonly DatabaseUsage[]
}

/** A plan to which an organization can subscribe. */
export interface Plan extends Raw {
  readonly name: string
  readonly price: string
  /** Prices by the period that is paid for, such as `monthly`. */
  readonly prices: readonly { readonly value: string; readonly timeline: string }[]
  /** Usage that the price includes; 0 means unlimited. */
  readonly quotas: {
    readonly rowsRead: number
    readonly rowsWritten: number
    /** May be null: the service documents this, but not its meaning. */
    readonly databases: number | null
    readonly locations: number
    /** Bytes. */
    readonly storage: number
    readonly groups: number
    /** Bytes. */
    readonly bytesSynced: number
  }
}

/** The plan of an organization. */
export interface Subscription extends Raw {
  readonly name: string
  /** Its plan, such as `scaler`. */
  readonly plan: string
  /** Whether usage beyond the plan is permitted. */
  readonly overages: boolean
  readonly timeline: Known<'monthly' | 'yearly'>
}

/** An invoice. The service documents neither the formats of its fields, nor which values those that do not apply have. */
export interface Invoice extends Raw {
  readonly invoiceNumber: string
  readonly amountDue: string
  readonly dueDate: string
  readonly paidAt: string
  readonly paymentFailedAt: string
  /** URL of the PDF. */
  readonly invoicePdf: string
}

/** A role that can be given to a member. */
export type AssignableRole = Known<'admin' | 'member' | 'viewer'>
/** A role in an organization, from all permissions to reading. */
export type Role = Known<'owner' | 'admin' | 'member' | 'viewer'>

/** A user who belongs to an organization. */
export interface Member extends Raw {
  readonly username: string
  readonly email: string
  readonly role: Role
}

/** Response to an invitation. */
export interface InvitedMember extends Raw {
  readonly email: string
  readonly role: AssignableRole
  /** Slug of the organization. */
  readonly organization: string
}

/** A pending invitation to an organization. */
export interface Invite extends Raw {
  readonly id: number
  readonly email: string
  readonly role: AssignableRole
  /** ISO 8601. */
  readonly createdAt: string
}

/** Permissions of a token for a group. */
export type Scope =
  | 'read'
  | `db:${'create' | 'delete' | 'configure' | 'mint-token' | 'rotate-creds'}`
  | `group:${'configure' | 'mint-token' | 'rotate-creds'}`

/** Presets: `read-only` is `read`, `full-access` is all scopes. The service stores the scopes. */
export type ScopePreset = 'read-only' | 'full-access'

/** A token of the platform API, without its secret. */
export interface ApiToken extends Raw {
  readonly id: string
  readonly name: string
  /** Slug of its organization; absent for a token for all organizations. */
  readonly organization?: string
  /** Name of its group; absent for a token for all groups. */
  readonly group?: string
  /** Its permissions in the group; absent if they are not limited. */
  readonly scopes?: readonly Known<Scope>[]
  /** `YYYY-MM-DD`. */
  readonly createdAt: string
}

/** A token for an organization, with the user who created it. */
export type OrganizationApiToken = ApiToken & {
  readonly owner: { readonly username: string; readonly email: string }
}

/** Response to the creation of a token, the only one that contains the token itself. */
export interface CreatedApiToken extends Raw {
  readonly id: string
  readonly name: string
  readonly token: string
}

/** An action in an organization. */
export interface AuditLog extends Raw {
  /** Such as `db-create`. */
  readonly code: string
  readonly message: string
  /** `cli` or `web`, according to the header `user-agent`. */
  readonly origin: string
  /** Name of the user. */
  readonly author: string
  /** ISO 8601. */
  readonly createdAt: string
  /** As sent by the service. */
  readonly data: Readonly<Record<string, unknown>>
}

/** The user of a token. */
export interface User extends Raw {
  readonly username: string
  readonly name: string
  readonly email: string
  /** URL of the picture. */
  readonly avatarUrl: string
  /** Plan of the personal account, such as `scaler`. */
  readonly plan: string
  /** Whether the user has set up multi-factor authentication. */
  readonly mfa: boolean
  readonly hasPendingInvites: boolean
}
