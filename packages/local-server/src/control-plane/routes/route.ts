import { PUBLIC, type RouteAccess } from './access.ts'
import type { Call } from './call.ts'

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
