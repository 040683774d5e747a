import type { Raw } from './view.ts'

// Responses from the service, in camel case. Other fields are kept too; see also `raw` on each object.

/** A known word, or one that was added later. */
export type Known<Words extends string> = Words | (string & {})
/** Like `Partial`, but undefined is allowed even with `exactOptionalPropertyTypes`. */
export type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined }
type Model<T> = Readonly<T> & Raw
type Texts<Names extends string> = Readonly<Record<Names, string>>
type Numbers<Names extends string> = Readonly<Record<Names, number>>
type Flags<Names extends string> = Readonly<Record<Names, boolean>>

export interface Database extends Raw, Flags<'blockReads' | 'blockWrites' | 'deleteProtection'> {
  readonly name: string
  /** UUID. */
  readonly dbId: string
  /** Host of the database. Do not derive it from the name. */
  readonly hostname: string
  readonly group: string
  readonly primaryRegion: string
  /** The database from which it was branched; null if there is none. */
  readonly parent: Texts<'id' | 'name' | 'branchedAt'> | null
  /** @deprecated by the service */
  readonly regions?: readonly string[]
  // observed, but not documented
  readonly archived?: boolean
  readonly sleeping?: boolean
  readonly isSchema?: boolean
  readonly schema?: string | null
  readonly version?: string
  readonly type?: string
}

/** Response to the creation of a database. */
export type CreatedDatabase = Pick<Database, 'name' | 'dbId' | 'hostname'> & Raw

export interface DatabaseConfiguration
  extends Raw,
    Flags<'blockReads' | 'blockWrites' | 'deleteProtection'>,
    Readonly<Record<'allowedIps' | 'allowedAwsVpcIds', readonly string[]>> {
  /** Bytes, or a number with a unit: `256mb`. */
  readonly sizeLimit: string
  /** @deprecated by the service */
  readonly allowAttach?: boolean
}

export interface Instance extends Raw, Texts<'uuid' | 'name' | 'region' | 'hostname'> {
  readonly type: Known<'primary' | 'replica'>
}

/** A copy of a database that a server of Baton keeps. */
export interface Snapshot extends Raw, Texts<'name' | 'createdAt'>, Numbers<'bytes'> {}

export type UsageFigures = Numbers<'rowsRead' | 'rowsWritten' | 'storageBytes' | 'bytesSynced'>

export interface DatabaseUsage extends Raw {
  readonly uuid: string
  readonly instances: readonly { readonly uuid: string; readonly usage: UsageFigures }[]
  /** Null if the service sent neither `total` nor `usage`. */
  readonly total: UsageFigures | null
}

export type QueryStatistics = Model<{ query: string } & Numbers<'rowsRead' | 'rowsWritten'>>

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
  // observed, but not documented
  readonly archived?: boolean
}

export type GroupConfiguration = Model<{ deleteProtection: boolean }>

export interface Organization
  extends Raw,
    Texts<'name' | 'slug' | 'planId'>,
    Flags<'overages' | 'requireMfa' | 'blockedReads' | 'blockedWrites'> {
  readonly type: Known<'personal' | 'team'>
  readonly planTimeline: Known<'monthly' | 'yearly'>
  /** Marketplace that manages it; empty if there is none. */
  readonly platform: string
}

export interface OrganizationUsage extends Raw {
  readonly uuid: string
  /** Usage in this period: the documentation calls it the plan's allowance, but the service's own tools read it as usage. */
  readonly usage: UsageFigures & Numbers<'databases' | 'locations' | 'groups'>
  /** Quotas of the plan, 0 for unlimited. Sent by the local server; for the cloud service see `plans()`. */
  readonly allowance?: UsageFigures & Numbers<'databases' | 'locations' | 'groups'>
  readonly databases: readonly DatabaseUsage[]
}

export interface Plan extends Raw, Texts<'name' | 'price'> {
  readonly prices: readonly Texts<'value' | 'timeline'>[]
  /** 0 means unlimited. */
  readonly quotas: { readonly databases: number | null } & Numbers<
    'rowsRead' | 'rowsWritten' | 'locations' | 'storage' | 'groups' | 'bytesSynced'
  >
}

export interface Subscription extends Raw, Texts<'name' | 'plan'> {
  readonly overages: boolean
  readonly timeline: Known<'monthly' | 'yearly'>
}

export interface Invoice extends Raw, Texts<'invoiceNumber' | 'amountDue'> {
  readonly dueDate: string
  readonly paidAt: string
  readonly paymentFailedAt: string
  /** URL of the PDF. */
  readonly invoicePdf: string
}

export type AssignableRole = Known<'admin' | 'member' | 'viewer'>
export type Role = Known<'owner' | 'admin' | 'member' | 'viewer'>
export type Member = Model<{ username: string; email: string; role: Role }>
export type InvitedMember = Model<{ email: string; role: AssignableRole; organization: string }>

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

export interface ApiToken extends Raw {
  readonly id: string
  readonly name: string
  /** Slug of its organization; absent for a token for all organizations. */
  readonly organization?: string
  readonly group?: string
  readonly scopes?: readonly Known<Scope>[]
  /** `YYYY-MM-DD`. */
  readonly createdAt: string
}

export type OrganizationApiToken = ApiToken & { readonly owner: Texts<'username' | 'email'> }
/** The only response that contains the token itself. */
export type CreatedApiToken = Model<{ id: string; name: string; token: string }>

export interface AuditLog extends Raw {
  /** Such as `db-create`. */
  readonly code: string
  readonly message: string
  /** `cli` or `web`, according to the header `user-agent`. */
  readonly origin: string
  readonly author: string
  /** ISO 8601. */
  readonly createdAt: string
  /** As sent by the service. */
  readonly data: Readonly<Record<string, unknown>>
}

export type User = Raw &
  Texts<'username' | 'name' | 'email' | 'avatarUrl' | 'plan'> &
  Flags<'mfa' | 'hasPendingInvites'>
