import { ApiError } from '../api-error.ts'
import type { Registry } from '../registry/registry.ts'
import type { OrganizationRow, Role } from '../registry/rows.ts'
import { isAtLeast } from '../rules/roles.ts'
import type { Scope } from '../rules/scopes.ts'
import type { Caller } from '../tokens/api-tokens.ts'
import type { Grant, RouteAccess } from './access.ts'

export interface AccessRequest {
  readonly access: Exclude<RouteAccess, { level: 'none' }>
  readonly caller: Caller
  /** The organization in the path; undefined if it does not exist, null if the path has none. */
  readonly pathOrganization: OrganizationRow | undefined | null
}

/**
 * Checks whether a caller may use a route. Group-scoped tokens are restricted to their group where databases and groups are
 * looked up.
 * @throws ApiError 403 for a token of the wrong kind, or without the scope or the role that the route needs; 404 for an organization that
 * does not exist, or that the caller is not a member of
 */
export function authorize(registry: Registry, { access, caller, pathOrganization }: AccessRequest): Grant {
  const { token } = caller
  if (token.scopes?.includes('metrics')) throw new ApiError(403, 'this token is for /metrics only')
  if (access.level === 'any') {
    if (token.group !== null && access.scope !== null) checkScope(caller, access.scope)
    return { caller, organization: null, role: null, group: token.group }
  }
  if (access.level === 'user') {
    if (token.organization !== null)
      throw new ApiError(403, 'this needs a token that is not scoped to an organization')
    return { caller, organization: null, role: null, group: null }
  }
  const organization = pathOrganization === null ? getDefaultOrganization(registry, caller) : pathOrganization
  const role = findRole(registry, caller, organization)
  // does not reveal which organizations exist
  if (organization === undefined || role === undefined) throw new ApiError(404, 'organization not found')
  if (token.group !== null) {
    if (access.level !== 'group') throw new ApiError(403, 'this needs a token that is not scoped to a group')
    checkScope(caller, access.scope)
  }
  if (!isAtLeast(role, access.role))
    throw new ApiError(403, `this is only allowed for ${describeRole(access.role)}`)
  return { caller, organization, role, group: token.group }
}

/** Returns the caller's role in an organization; undefined if the user is not a member, or the token is for another organization. */
export function findRole(
  registry: Registry,
  { token, user }: Caller,
  organization: OrganizationRow | undefined,
): Role | undefined {
  if (organization === undefined) return undefined
  if (token.organization !== null && token.organization !== organization.id) return undefined
  return registry.findMembership(organization.id, user.id)?.role
}

function checkScope({ token }: Caller, scope: Scope): void {
  if (token.scopes?.includes(scope) !== true)
    throw new ApiError(403, `the token does not have the scope ${scope}`)
}

/** Returns the organization for a path that does not name one: the token's organization, or else the user's own, preferably the personal one. */
function getDefaultOrganization(registry: Registry, { token, user }: Caller): OrganizationRow | undefined {
  if (token.organization !== null) return registry.organizations.get(token.organization)
  const memberships = registry.members.rows.filter(
    (member) => member.user === user.id && member.role === 'owner',
  )
  const organizations = memberships.flatMap(
    ({ organization }) => registry.organizations.get(organization) ?? [],
  )
  return organizations.find(({ type }) => type === 'personal') ?? organizations[0]
}

function describeRole(role: Role): string {
  return {
    viewer: 'members',
    member: 'members except viewers',
    admin: 'admin or owner',
    owner: 'the owner',
  }[role]
}
