import { CALL_OPTIONS, type Condition, checkOptions, isPlainObject, PLAIN_OBJECT } from '@batonsql/options'
import { call, type Request } from './call.ts'
import {
  type PlatformCallOptions,
  type PlatformConfig,
  type ResolvedConfig,
  resolveConfig,
} from './config.ts'
import {
  type DatabaseTokenOptions,
  type DatabaseTokenProvider,
  databaseTokenProvider,
} from './database-token-provider.ts'
import { checkPath } from './path.ts'
import { type PlatformCall, startCall } from './platform-call.ts'
import { buildRoutes } from './route.ts'
import { buildDatabases, type Databases } from './routes/databases.ts'
import { buildGroups, type Groups } from './routes/groups.ts'
import {
  type ApiTokens,
  type AuditLogs,
  accountRoutes,
  type Invites,
  type Locations,
  type Members,
  type Organizations,
  organizationRoutes,
  type Users,
} from './routes/organizations.ts'

/** Options of `request`: query, body and idempotency, besides those of every call. */
export interface PlatformRequestOptions
  extends PlatformCallOptions,
    Pick<Request, 'query' | 'body' | 'isIdempotent'> {}

/**
 * A client for the platform API. Failed calls reject with a PlatformError: its `status` is that of the response, its `code` shows whether
 * there was no response (`NETWORK`, `TIMEOUT`, `ABORTED`) or an undocumented one (`DECODE`). A client holds no resources and need not
 * be closed.
 */
export interface PlatformClient {
  readonly databases: Databases
  readonly groups: Groups
  readonly organizations: Organizations
  readonly members: Members
  readonly invites: Invites
  readonly auditLogs: AuditLogs
  readonly apiTokens: ApiTokens
  readonly locations: Locations
  readonly users: Users
  /** Returns the same client for another organization. @param slug its slug, or that of the personal account */
  forOrganization(slug: string): PlatformClient
  /**
   * Returns a function that provides a valid token, for `createClient({ authToken })`. It creates short-lived tokens one at a time,
   * each before the previous one expires.
   * @throws TypeError for an invalid `expiration`; the function rejects with the PlatformError of the call that creates a token
   */
  databaseToken(options: DatabaseTokenOptions): DatabaseTokenProvider
  /**
   * Sends a custom request, to a route that has no method, with the same token, retries and errors.
   * @param path begins with `/` and a version; its segments are encoded
   * @returns the JSON of the response, unchanged; undefined if it is empty. Its type `T` is not checked.
   */
  request<T = unknown>(
    method: Request['method'],
    path: string,
    options?: PlatformRequestOptions,
  ): PlatformCall<T>
}

// the content of other objects, such as a Map, would be lost
const BODY: Condition = {
  text: 'a plain object, an array or FormData',
  accepts: (value) => isPlainObject(value) || Array.isArray(value) || value instanceof FormData,
}
const REQUEST_OPTIONS = { ...CALL_OPTIONS, query: PLAIN_OBJECT, body: BODY, isIdempotent: 'boolean' } as const
const METHODS: readonly Request['method'][] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/** Creates a client for the platform API, without sending anything. @throws TypeError with the invalid option */
export const createPlatformClient = (config: PlatformConfig): PlatformClient =>
  buildClient(resolveConfig(config))

function buildClient(config: ResolvedConfig): PlatformClient {
  const routes = buildRoutes(config)
  const databases = buildDatabases(config, routes)
  const groups = buildGroups(config, routes)
  return {
    databases,
    groups,
    ...organizationRoutes(routes),
    ...accountRoutes(routes),
    forOrganization: (organization) => buildClient({ ...config, organization }),
    databaseToken: (options) => databaseTokenProvider({ databases, groups }, options),
    request<T>(method: Request['method'], path: string, options: PlatformRequestOptions = {}) {
      return startCall(() => {
        checkOptions(options, REQUEST_OPTIONS)
        if (!METHODS.includes(method)) throw new TypeError(`method must be one of ${METHODS.join(', ')}`)
        const { query, body, isIdempotent, ...callOptions } = options
        const request = { method, path: checkPath(path), query, body, isIdempotent }
        return call(config, request, callOptions, (response) => response.body as T)
      })
    },
  }
}
