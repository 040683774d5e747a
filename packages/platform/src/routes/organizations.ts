import type { PlatformCallOptions } from '../config.ts'
import type * as models from '../models.ts'
import { type Answer, fieldOf, list, map, number, one, text } from '../readers.ts'
import { checkedBody, type Routes } from '../route.ts'
import { bodyOrNone, withRaw } from '../view.ts'
import { withTotal } from './databases.ts'

/** What to change of an organization; what is left out stays. `requireMfa` needs a caller that uses it. */
export type OrganizationChanges = models.Optional<Pick<models.Organization, 'overages' | 'requireMfa'>>

export interface InvoicesOptions extends PlatformCallOptions {
  readonly type?: 'all' | 'upcoming' | 'issued' | undefined
}

/** A user who becomes a member: by default a `member`. */
export interface NewMember {
  readonly username: string
  readonly role?: models.AssignableRole | undefined
}

/** Who is invited, by one of the two, and as what: by default a `member`. */
export type NewInvite = { readonly role?: models.AssignableRole | undefined } & (
  | { readonly email: string; readonly username?: undefined }
  | { readonly username: string; readonly email?: undefined }
)

/** What an API token is for. Without any of it: for all organizations of the caller, which the service wants to end. */
export interface ApiTokenOptions extends PlatformCallOptions {
  /** Slug of the one organization. */
  readonly organization?: string | undefined
  /** The one group in it; only admins and owners may make such a token. */
  readonly group?: string | undefined
  /** What it may do in the group. */
  readonly scopes?: readonly (models.Scope | models.ScopePreset)[] | undefined
}

const ONE = '/v1/organizations/{organization}'
const INVITATIONS = '/v2/organizations/{organization}/invites'
const readOrganization = one<models.Organization>('organization', 'slug')
const readMember = one<models.Member>('member', 'username')

export const organizationRoutes = ({ route, removal, pages }: Routes) => ({
  /** The organization of the client, and all that the caller belongs to. */
  organizations: {
    /** Organizations of the caller, the personal account among them. */
    list: route('GET /v1/organizations', list<models.Organization>('organizations')),
    /** The organization of the client. */
    get: route(`GET ${ONE}`, readOrganization),
    /** Changes the organization of the client. */
    update: route(`PATCH ${ONE}`, readOrganization, {
      body: (changes: OrganizationChanges) => checkedBody(changes, { boolean: ['overages', 'requireMfa'] }),
    }),
    /** What the organization used in this period, and each of its databases. */
    usage: route(`GET ${ONE}/usage`, (answer: Answer): models.OrganizationUsage => {
      const usage = one<models.OrganizationUsage>('organization', 'uuid')(answer)
      const databases = list<models.DatabaseUsage>('databases')({ ...answer, body: usage.raw }).map(withTotal)
      return withRaw({ ...usage, databases }, usage.raw)
    }),
    /** Plans to choose from, with their quotas. */
    plans: route(`GET ${ONE}/plans`, list<models.Plan>('plans')),
    /** Invoices of the organization. */
    invoices: route(`GET ${ONE}/invoices`, list<models.Invoice>('invoices'), {
      rules: { type: "'all' or 'upcoming' or 'issued'" },
      send: ({ type }: InvoicesOptions) => ({ query: { type } }),
    }),
    /** The plan that the organization has. */
    subscription: route(`GET ${ONE}/subscription`, one<models.Subscription>('subscription', 'plan')),
  },
  /** Members of the organization. */
  members: {
    /** Members of the organization. */
    list: route(`GET ${ONE}/members`, list<models.Member>('members')),
    /**
     * Adds a user who has an account; others are invited.
     * @throws PlatformError with status 404 for no such user, 409 for one who is a member already
     */
    add: route(
      `POST ${ONE}/members`,
      (answer: Answer) => ({ username: text('member')(answer), role: text<models.Role>('role')(answer) }),
      { body: (member: NewMember) => checkedBody(member, { string: ['username', 'role'] }) },
    ),
    /** A member by the user's name. @throws PlatformError with status 404 when there is none */
    get: route(`GET ${ONE}/members/{username}`, readMember),
    /** Gives a member another role. @throws PlatformError with status 403 when the caller is neither admin nor owner */
    updateRole: route(`PATCH ${ONE}/members/{username}`, readMember, {
      body: (role: models.AssignableRole) => ({ role }),
    }),
    /** Takes a member out of the organization. */
    remove: removal(`DELETE ${ONE}/members/{username}`),
  },
  /** Invitations to the organization that are not accepted yet. */
  invites: {
    /** Invitations that are not accepted yet. */
    list: route(`GET ${INVITATIONS}`, list<models.Invite>('invites')),
    /** Invites a person, in place of an invitation that is open. */
    create: route(`POST ${INVITATIONS}`, one<models.InvitedMember>('invited', 'email'), {
      body(invite: NewInvite) {
        if ((invite.email === undefined) === (invite.username === undefined))
          throw new TypeError('an invite needs either email or username')
        return checkedBody(invite, { string: ['email', 'username', 'role'] })
      },
    }),
    /** Withdraws an invitation. */
    delete: removal(`DELETE ${INVITATIONS}/{email}`),
  },
  /** What was done in the organization. */
  auditLogs: {
    /**
     * What was done in the organization, newest first, in pages by number: one that comes meanwhile moves the others, so that
     * the last of a page may be the first of the next, too.
     */
    list: pages(
      `GET ${ONE}/audit-logs`,
      (at, size) => ({ page: Number(at ?? 1), page_size: size }),
      (at) => (answer) => {
        const items = list<models.AuditLog>('audit_logs', ['data'])(answer)
        const count = fieldOf(fieldOf(answer.body, 'pagination'), 'total_pages') ?? 1
        const page = Number(at ?? 1)
        return { items, next: items.length > 0 && page < Number(count) ? String(page + 1) : null }
      },
    ),
  },
})

export const accountRoutes = ({ route, removal }: Routes) => ({
  /** Tokens of the platform API. */
  apiTokens: {
    /** Until when the client's own token is valid; null for one without end. @throws PlatformError with status 401 when it is not */
    validate: route('GET /v1/auth/validate', (answer: Answer) => {
      const seconds = number('exp')(answer)
      return { expiresAt: seconds === -1 ? null : new Date(seconds * 1_000) }
    }),
    /** Tokens that the caller made. */
    list: route('GET /v1/auth/api-tokens', list<models.ApiToken>('tokens')),
    /** Makes a token. Its secret is in this answer and nowhere else. Never sent twice when it may have arrived. */
    create: route('POST /v1/auth/api-tokens/{name}', one<models.CreatedApiToken>('token', 'token'), {
      rules: { organization: 'string', group: 'string', scopes: 'object' },
      send: ({ organization, group, scopes }: ApiTokenOptions) => ({
        body: bodyOrNone({ organization, group, scopes }),
      }),
    }),
    /** Ends a token that the caller made. */
    revoke: removal('DELETE /v1/auth/api-tokens/{name}'),
    /** Tokens for the organization: all of them for admins and owners, for others those that they made. */
    listOfOrganization: route(`GET ${ONE}/api-tokens`, list<models.OrganizationApiToken>('tokens')),
    /**
     * Ends a token for the organization, by its id and not by its name.
     * @throws PlatformError with status 404 also for one of another organization
     */
    revokeOfOrganization: removal(`DELETE ${ONE}/api-tokens/{id}`),
  },
  /** Places where a group can be. */
  locations: {
    /** Places where a group can be: descriptions by their codes. */
    list: route('GET /v1/locations', map<Readonly<Record<string, string>>>('locations')),
  },
  /** The user whose token it is. */
  users: {
    /** The user whose token it is. */
    current: route('GET /v1/user', one<models.User>('user', 'username')),
  },
})
