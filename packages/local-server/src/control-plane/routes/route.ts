import { PUBLIC, type RouteAccess } from './access.ts'
import type { Call } from './call.ts'

/** One route of the platform API. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path pattern, with `:name` for parameters. */
  readonly path: string
  readonly access: RouteAccess
  /** Whether the service documents it; the others are used by its command line. */
  readonly isDocumented: boolean
  /** Returns the JSON of the response; undefined for no body. */
  readonly handle: (call: Call) => unknown
}

export const ORGANIZATION = '/v1/organizations/:organizationSlug'
export const ORGANIZATION_2 = '/v2/organizations/:organizationSlug'
export const DATABASE = `${ORGANIZATION}/databases/:databaseName`
export const GROUP = `${ORGANIZATION}/groups/:groupName`

type Handler = Route['handle']

/** Creates a documented route. */
export function documented(
  method: Route['method'],
  path: string,
  access: RouteAccess,
  handle: Handler,
): Route {
  return { method, path, access, isDocumented: true, handle }
}

/** Creates a route that only the command line uses. */
export function undocumented(
  method: Route['method'],
  path: string,
  access: RouteAccess,
  handle: Handler,
): Route {
  return { method, path, access, isDocumented: false, handle }
}

/** Creates a route that needs no token. */
export function open(path: string, handle: Handler): Route {
  return { method: 'GET', path, access: PUBLIC, isDocumented: false, handle }
}
