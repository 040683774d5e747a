import type { OrganizationRow, Role, Scope } from '../registry/rows.ts'
import type { Caller } from '../tokens/api-tokens.ts'

/**
 * Access requirement of a route.
 * `none`: no token. `any`: any API token; if it is scoped to a group, it needs the scope, if given. `user`: an unrestricted token,
 * for the user's own data. `organization`: a token for the whole organization, from a member with the role. `group`: the same, or
 * a group-scoped token with the scope.
 */
export type RouteAccess =
  | { readonly level: 'none' }
  | { readonly level: 'user' }
  | { readonly level: 'any'; readonly scope: Scope | null }
  | { readonly level: 'organization'; readonly role: Role }
  | { readonly level: 'group'; readonly role: Role; readonly scope: Scope }

export const PUBLIC: RouteAccess = { level: 'none' }
export const ANY_TOKEN: RouteAccess = { level: 'any', scope: null }
export const ANY_READER: RouteAccess = { level: 'any', scope: 'read' }
export const OWN_USER: RouteAccess = { level: 'user' }

/** Returns the requirement for a scope. For `read`: the viewer role and, if the token is scoped to a group, this scope. */
export function scoped(scope: Scope): RouteAccess {
  return { level: 'group', role: scope === 'read' ? 'viewer' : 'member', scope }
}

export function organizationWide(role: Role): RouteAccess {
  return { level: 'organization', role }
}

/** The access that was granted to a caller. */
export interface Grant {
  readonly caller: Caller
  /** The organization of the route, if it has one. */
  readonly organization: OrganizationRow | null
  /** The caller's role in the organization. */
  readonly role: Role | null
  /** The only group that the token can access; null for all groups. */
  readonly group: string | null
}
