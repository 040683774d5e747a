import type { Role, Scope } from '../registry/rows.ts'
import type { Call } from './call.ts'

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

/** One route of the platform API. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** With `:name` for what varies. */
  readonly path: string
  readonly access: RouteAccess
  /** Whether the service's documents have it; the others are what its command line asks for. */
  readonly isDocumented: boolean
  /** Answers with what becomes the JSON of the body; undefined for none. */
  readonly handle: (call: Call) => unknown
}

export const ORGANIZATION = '/v1/organizations/:organizationSlug'
export const ORGANIZATION_2 = '/v2/organizations/:organizationSlug'
export const DATABASE = `${ORGANIZATION}/databases/:databaseName`
export const GROUP = `${ORGANIZATION}/groups/:groupName`

const PUBLIC: RouteAccess = { level: 'none' }
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

type Handler = Route['handle']

/** Routes of the documents: `[method, path, access, handler]`. */
export function documented(
  method: Route['method'],
  path: string,
  access: RouteAccess,
  handle: Handler,
): Route {
  return { method, path, access, isDocumented: true, handle }
}

/** Routes that only the command line knows. */
export function undocumented(
  method: Route['method'],
  path: string,
  access: RouteAccess,
  handle: Handler,
): Route {
  return { method, path, access, isDocumented: false, handle }
}

/** A route that needs no token. */
export function open(path: string, handle: Handler): Route {
  return { method: 'GET', path, access: PUBLIC, isDocumented: false, handle }
}
