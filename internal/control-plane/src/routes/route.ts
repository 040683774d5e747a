import * as v from 'valibot'
import { type Access, PUBLIC, type RouteAccess, toRouteAccess } from './access.ts'
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

/** The method and the path of a route, such as `GET /v1/locations`. */
export type Endpoint = `${Route['method']} ${string}`

export function documented(
  endpoint: Endpoint,
  access: Access,
  schemas: RouteSchemas,
  handle: Handler,
): Route {
  return { ...undocumented(endpoint, access, schemas, handle), isDocumented: true }
}

/** Creates a route that the service does not document: only the vendor's CLI uses it, or it is Baton's own. */
export function undocumented(
  endpoint: Endpoint,
  access: Access,
  schemas: RouteSchemas | null,
  handle: Handler,
): Route {
  const [method, path] = endpoint.split(' ') as [Route['method'], string]
  return { method, path, access: toRouteAccess(access), isDocumented: false, schemas, handle }
}

/** Creates a route that needs no token. */
export function open(path: string, response: v.GenericSchema, handle: Handler): Route {
  return undocumented(`GET ${path}`, PUBLIC, { response }, handle)
}

/** Describes a route whose response is an object with these fields. */
export function returns(fields: v.ObjectEntries, request: Omit<RouteSchemas, 'response'> = {}): RouteSchemas {
  return { response: v.object(fields), ...request }
}
