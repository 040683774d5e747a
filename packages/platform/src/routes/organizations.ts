import { checkOptions, STRINGS } from '@batonsql/options'
import type { PlatformCallOptions } from '../config.ts'
import type * as models from '../models.ts'
import { startCall } from '../platform-call.ts'
import { getField, list, map, number, object, type ParsedResponse, text } from '../readers.ts'
import { checkedBody, type Routes, textBody } from '../route.ts'
import { toOptionalBody, withRaw } from '../view.ts'
import { withTotal } from './databases.ts'

/** An organization to create. */
export interface NewOrganization {
  /** Name from which its slug is derived. */
  readonly name: string
}

/** Changes to an organization; omitted fields are kept. Only a caller who uses MFA can set `requireMfa`. */
export type OrganizationChanges = models.Optional<Pick<models.Organization, 'overages' | 'requireMfa'>>

/** Options of a list of invoices. */
export interface InvoicesOptions extends PlatformCallOptions {
  /** Only invoices of this type. */
  readonly type?: 'all' | 'upcoming' | 'issued' | undefined
}

/** A user to add, by default as a `member`. */
export interface NewMember {
  readonly username: string
  readonly role?: models.AssignableRole | undefined
}

/** A person to invite, by email address or user name, by default as a `member`. */
export type NewInvite = { readonly role?: models.AssignableRole | undefined } & (
  | { readonly email: string; readonly username?: undefined }
  | { readonly username: string; readonly email?: undefined }
)

/** An API token, by default for all organizations of the caller; the service intends to remove this default. */
export interface NewApiToken {
  readonly name: string
  /** Slug of the only organization that it gives access to. */
  readonly organization?: string | undefined
  /** The only group that it gives access to; this requires an admin or owner. */
  readonly group?: string | undefined
  /** Its permissions in the group, which needs at least one. Without an organization, only `metrics`: access to the metrics of the local server. */
  readonly scopes?: readonly (models.Scope | models.ScopePreset | 'metrics')[] | undefined
}

const ORGANIZATION_PATH = '/v1/organizations/{organization}'
const INVITES_PATH = '/v2/organizations/{organization}/invites'
const readOrganization = object<models.Organization>('organization', 'slug')
const readMember = object<models.Member>('member', 'username')

export const organizationRoutes = ({ route, removal, pages }: Routes) => ({
  organizations: {
    /** Lists the organizations of the caller, including the personal account. */
    list: route('GET /v1/organizations', list<models.Organization>('organizations')),
    /**
     * Creates an organization that the caller owns, using a route that the service does not document. Never retried if the request may
     * have arrived.
     * @throws PlatformError with status 409 if the name is taken (`isAlreadyExists`)
     */
    create: route('POST /v1/organizations', object<models.Organization>('org', 'slug'), {
      body: (organization: NewOrganization) => checkedBody(organization, { name: 'string' }),
    }),
    /** Returns the organization of the client. */
    get: route(`GET ${ORGANIZATION_PATH}`, readOrganization),
    /** Changes the organization of the client. */
    update: route(`PATCH ${ORGANIZATION_PATH}`, readOrganization, {
      body: (changes: OrganizationChanges) =>
        checkedBody(changes, { overages: 'boolean', requireMfa: 'boolean' }),
    }),
    /** Returns the usage of the organization in this period, and of each of its databases. */
    usage: route(`GET ${ORGANIZATION_PATH}/usage`, (response: ParsedResponse): models.OrganizationUsage => {
      const usage = object<models.OrganizationUsage>('organization', 'uuid')(response)
      const databases = list<models.DatabaseUsage>('databases')({ ...response, body: usage.raw }).map(
        withTotal,
      )
      return withRaw({ ...usage, databases }, usage.raw)
    }),
    /** Lists the available plans with their quotas. */
    plans: route(`GET ${ORGANIZATION_PATH}/plans`, list<models.Plan>('plans')),
    /** Lists the invoices of the organization. */
    invoices: route(`GET ${ORGANIZATION_PATH}/invoices`, list<models.Invoice>('invoices'), {
      rules: { type: ['all', 'upcoming', 'issued'] },
      send: ({ type }: InvoicesOptions) => ({ query: { type } }),
    }),
    /** Returns the current plan of the organization. */
    subscription: route(
      `GET ${ORGANIZATION_PATH}/subscription`,
      object<models.Subscription>('subscription', 'plan'),
    ),
  },
  members: {
    /** Lists the members of the organization. */
    list: route(`GET ${ORGANIZATION_PATH}/members`, list<models.Member>('members')),
    /**
     * Adds a user who has an account; others must be invited.
     * @throws PlatformError with status 404 if the user does not exist, 409 if the user is already a member
     */
    add: route(
      `POST ${ORGANIZATION_PATH}/members`,
      (response: ParsedResponse) => ({
        username: text('member')(response),
        role: text<models.Role>('role')(response),
      }),
      { body: (member: NewMember) => checkedBody(member, { username: 'string', role: 'string' }) },
    ),
    /** Returns a member by user name. @throws PlatformError with status 404 if the member does not exist */
    get: route(`GET ${ORGANIZATION_PATH}/members/{username}`, readMember),
    /** Changes the role of a member. @throws PlatformError with status 403 unless the caller is admin or owner */
    updateRole: route(`PATCH ${ORGANIZATION_PATH}/members/{username}`, readMember, {
      body: (role: models.AssignableRole) => textBody('role', role),
    }),
    /** Removes a member from the organization. */
    remove: removal(`DELETE ${ORGANIZATION_PATH}/members/{username}`),
  },
  invites: {
    /** Lists pending invitations. */
    list: route(`GET ${INVITES_PATH}`, list<models.Invite>('invites')),
    /** Invites a person, replacing a pending invitation. */
    create: route(`POST ${INVITES_PATH}`, object<models.InvitedMember>('invited', 'email'), {
      body(invite: NewInvite) {
        const body = checkedBody(invite, { email: 'string', username: 'string', role: 'string' })
        if ((invite.email === undefined) === (invite.username === undefined))
          throw new TypeError('an invite needs either email or username')
        return body
      },
    }),
    /** Withdraws an invitation. */
    delete: removal(`DELETE ${INVITES_PATH}/{email}`),
  },
  auditLogs: {
    /**
     * Lists the actions in the organization, newest first, in numbered pages. New actions shift the pages, so an item may appear on two
     * pages.
     */
    list: pages(
      `GET ${ORGANIZATION_PATH}/audit-logs`,
      (at, size) => ({ page: Number(at ?? 1), page_size: size }),
      (at) => (response) => {
        const items = list<models.AuditLog>('audit_logs', ['data'])(response)
        const count = getField(getField(response.body, 'pagination'), 'total_pages') ?? 1
        const page = Number(at ?? 1)
        return { items, next: items.length > 0 && page < Number(count) ? String(page + 1) : null }
      },
    ),
  },
})

const createApiToken = (route: Routes['route']) =>
  route('POST /v1/auth/api-tokens/{name}', object<models.CreatedApiToken>('token', 'token'), {
    body: ({ organization, group, scopes }: NewApiToken) => toOptionalBody({ organization, group, scopes }),
  })

export const accountRoutes = ({ route, removal }: Routes) => ({
  apiTokens: {
    /**
     * Returns when the client's own token expires; null if it does not.
     * @throws PlatformError with status 401 if the token is invalid
     */
    validate: route('GET /v1/auth/validate', (response: ParsedResponse) => {
      const seconds = number('exp')(response)
      return { expiresAt: seconds === -1 ? null : new Date(seconds * 1_000) }
    }),
    /** Lists the tokens that the caller has created. */
    list: route('GET /v1/auth/api-tokens', list<models.ApiToken>('tokens')),
    /** Creates a token. Only this response contains its secret. Never retried if the request may have arrived. */
    create: (token: NewApiToken, options?: PlatformCallOptions) =>
      startCall(() => {
        checkOptions(token, { name: 'string', organization: 'string', group: 'string', scopes: STRINGS })
        return createApiToken(route)(token.name, token, options)
      }),
    /** Revokes a token that the caller has created. */
    revoke: removal('DELETE /v1/auth/api-tokens/{name}'),
    /** Lists the tokens for the organization: all tokens for admins and owners; only their own for others. */
    listOfOrganization: route(
      `GET ${ORGANIZATION_PATH}/api-tokens`,
      list<models.OrganizationApiToken>('tokens'),
    ),
    /**
     * Revokes a token for the organization by its id, not by its name.
     * @throws PlatformError with status 404, also for a token of another organization
     */
    revokeOfOrganization: removal(`DELETE ${ORGANIZATION_PATH}/api-tokens/{id}`),
  },
  locations: {
    /** Returns the descriptions of locations, keyed by their codes. */
    list: route('GET /v1/locations', map<Readonly<Record<string, string>>>('locations')),
  },
  users: {
    /** Returns the user of the token. */
    current: route('GET /v1/user', object<models.User>('user', 'username')),
  },
})

type OrganizationRoutes = ReturnType<typeof organizationRoutes>
type AccountRoutes = ReturnType<typeof accountRoutes>
/** The organization of the client, and all organizations of the caller. */
export interface Organizations extends Readonly<OrganizationRoutes['organizations']> {}
/** Members of the organization. */
export interface Members extends Readonly<OrganizationRoutes['members']> {}
/** Pending invitations to the organization. */
export interface Invites extends Readonly<OrganizationRoutes['invites']> {}
/** Audit logs of the organization. */
export interface AuditLogs extends Readonly<OrganizationRoutes['auditLogs']> {}
/** Tokens of the platform API. */
export interface ApiTokens extends Readonly<AccountRoutes['apiTokens']> {}
/** Locations of groups. */
export interface Locations extends Readonly<AccountRoutes['locations']> {}
/** The user of the token. */
export interface Users extends Readonly<AccountRoutes['users']> {}
