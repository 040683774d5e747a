import type { OrganizationRow, Role, Scope } from '../registry/rows.ts'
import type { Caller } from '../tokens/api-tokens.ts'

/**
 * Who may use a route.
 * `none`: everybody. `any`: every API token; a group's needs the scope, if there is one. `user`: an unrestricted token, for what is the user's own.
 * `organization`: a token that reaches the whole organization, of a member with the role. `group`: also a token of a
 * group that has the scope.
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

/** Short for whom a route is: `read` of a group means its scope, and a viewer's role. */
export function scoped(scope: Scope): RouteAccess {
  return { level: 'group', role: scope === 'read' ? 'viewer' : 'member', scope }
}

export function organizationWide(role: Role): RouteAccess {
  return { level: 'organization', role }
}

/** What a caller was found to be allowed. */
export interface Grant {
  readonly caller: Caller
  /** Of routes that are about an organization. */
  readonly organization: OrganizationRow | null
  /** The caller's role there. */
  readonly role: Role | null
  /** The only group a token reaches; null for all. */
  readonly group: string | null
}
