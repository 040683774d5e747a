import { call, type Request } from './call.ts'
import { CALL_OPTIONS, checkOptions } from './check-options.ts'
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
import type { PlatformCall } from './platform-call.ts'
import { routesOf } from './route.ts'
import { type Databases, databasesOf } from './routes/databases.ts'
import { type Groups, groupsOf } from './routes/groups.ts'
import { accountRoutes, organizationRoutes } from './routes/organizations.ts'

export interface PlatformRequestOptions
  extends PlatformCallOptions,
    Pick<Request, 'query' | 'body' | 'isRepeatable'> {}

/**
 * Client of the platform API. Every call throws a PlatformError when it fails: its `status` says what the service answered,
 * its `code` whether there was no answer (`NETWORK`, `TIMEOUT`, `ABORTED`) or not the documented one (`DECODE`). It holds
 * nothing open and need not be closed.
 */
export interface PlatformClient
  extends ReturnType<typeof organizationRoutes>,
    ReturnType<typeof accountRoutes> {
  readonly databases: Databases
  readonly groups: Groups
  /** The same client for another organization. @param slug its slug, or that of the personal account */
  forOrganization(slug: string): PlatformClient
  /**
   * A function that gives a token that is valid, for `createClient({ authToken })`: it makes short ones, one at a time, and
   * the next before the last one ends.
   * @throws TypeError for a `ttl` that is no length of time; the function throws the PlatformError of the call that makes one
   */
  databaseToken(options: DatabaseTokenOptions): DatabaseTokenProvider
  /**
   * Sends a request of your own, to a route that has no method here, with the same token, repetitions and errors.
   * @param path begins with `/` and a version; its segments are encoded
   * @returns the JSON of the answer as it came; undefined for an empty one
   */
  request<T = unknown>(
    method: Request['method'],
    path: string,
    options?: PlatformRequestOptions,
  ): PlatformCall<T>
}

const REQUEST_OPTIONS = { ...CALL_OPTIONS, query: 'object', body: 'object', isRepeatable: 'boolean' }
const METHODS: readonly Request['method'][] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/** Makes a client of the platform API. Sends nothing. @throws TypeError naming the option that is wrong */
export const createPlatformClient = (config: PlatformConfig): PlatformClient =>
  clientOf(resolveConfig(config))

function clientOf(config: ResolvedConfig): PlatformClient {
  const routes = routesOf(config)
  const databases = databasesOf(config, routes)
  const groups = groupsOf(config, routes)
  return {
    databases,
    groups,
    ...organizationRoutes(routes),
    ...accountRoutes(routes),
    forOrganization: (organization) => clientOf({ ...config, organization }),
    databaseToken: (options) => databaseTokenProvider({ databases, groups }, options),
    request<T>(method: Request['method'], path: string, options: PlatformRequestOptions = {}) {
      checkOptions(options, REQUEST_OPTIONS)
      if (!METHODS.includes(method)) throw new TypeError(`method must be one of ${METHODS.join(', ')}`)
      const { query, body, isRepeatable, ...callOptions } = options
      const request = { method, path: checkPath(path), query, body, isRepeatable }
      return call(config, request, callOptions, (answer) => answer.body as T)
    },
  }
}
