import type { OrganizationRow, Role } from '../registry/rows.ts'
import { isRole } from '../rules/roles.ts'
import type { Scope } from '../rules/scopes.ts'
import type { Caller } from '../tokens/api-tokens.ts'

/**
 * Access requirement of a route:
 *
 * - `none`: no token
 * - `any`: any API token; one that is scoped to a group needs the scope, unless it is null
 * - `user`: a token that is not scoped to an organization, for the user's own data
 * - `organization`: a token for the whole organization, of a member with at least the role
 * - `group`: the same, or a token that is scoped to a group and has the scope, of a member with at least the role
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

/**
 * A requirement in short: a scope, which also requires the viewer role for `read` and otherwise the member role, or a role, for
 * which a group-scoped token is not enough.
 */
export type Access = RouteAccess | Scope | Role

export function toRouteAccess(access: Access): RouteAccess {
  if (typeof access !== 'string') return access
  if (isRole(access)) return { level: 'organization', role: access }
  return { level: 'group', role: access === 'read' ? 'viewer' : 'member', scope: access }
}

export interface Grant {
  readonly caller: Caller
  /** The organization of the route, if it has one. */
  readonly organization: OrganizationRow | null
  /** The caller's role in the organization. */
  readonly role: Role | null
  /** The only group that the token can access; null for all groups. */
  readonly group: string | null
}
