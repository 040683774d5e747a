import type * as v from 'valibot'
import { PUBLIC, type RouteAccess } from './access.ts'
import type { Call } from './call.ts'

/** Schemas of a route's requests and responses, for the OpenAPI description. */
export interface RouteSchemas {
  /** The JSON of a successful response; null for an empty body. */
  readonly response: v.GenericSchema | null
  /** The body of the request. @default none */
  readonly body?: v.GenericSchema
  /** Whether the body is a form instead of JSON. @default false */
  readonly isForm?: boolean
  /** Names of the parameters in the query. @default none */
  readonly query?: readonly string[]
}

/** One route of the platform API. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path pattern, with `:name` for parameters. */
  readonly path: string
  readonly access: RouteAccess
  /** Whether the service documents the route. Other routes are used by the vendor's CLI, or are Baton's own. */
  readonly isDocumented: boolean
  /** Null for a route that this server does not support. */
  readonly schemas: RouteSchemas | null
  /** Returns the JSON of the response; undefined for no body. */
  readonly handle: (call: Call) => unknown
}

export const ORGANIZATION = '/v1/organizations/:organizationSlug'
export const ORGANIZATION_V2 = '/v2/organizations/:organizationSlug'
export const DATABASE = `${ORGANIZATION}/databases/:databaseName`
export const GROUP = `${ORGANIZATION}/groups/:groupName`

type Handler = Route['handle']

/** Creates a documented route. */
// oxlint-disable-next-line max-params
export function documented(
  method: Route['method'],
  path: string,
  access: RouteAccess,
  schemas: RouteSchemas,
  handle: Handler,
): Route {
  return { method, path, access, isDocumented: true, schemas, handle }
}

/** Creates a route that the service does not document: only the vendor's CLI uses it, or it is Baton's own. */
// oxlint-disable-next-line max-params
export function undocumented(
  method: Route['method'],
  path: string,
  access: RouteAccess,
  schemas: RouteSchemas | null,
  handle: Handler,
): Route {
  return { method, path, access, isDocumented: false, schemas, handle }
}

/** Creates a route that needs no token. */
export function open(path: string, response: v.GenericSchema, handle: Handler): Route {
  return { method: 'GET', path, access: PUBLIC, isDocumented: false, schemas: { response }, handle }
}
