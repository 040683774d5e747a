import { checkOptions } from '../base/check-options.ts'
import { type Clock, systemClock } from '../base/clock.ts'
import {
  type DatabaseTokenOptions,
  type DatabaseTokenProvider,
  databaseTokenProvider,
} from './database-token-provider.ts'
import type { PlatformCall } from './platform-call.ts'
import {
  type PlatformCallOptions,
  type PlatformConfig,
  type ResolvedPlatformConfig,
  resolvePlatformConfig,
} from './platform-config.ts'
import { CALL, PlatformHttp, type Route } from './platform-http.ts'
import { checkPath, type Query } from './platform-path.ts'
import { ApiTokens } from './resources/api-tokens.ts'
import { AuditLogs } from './resources/audit-logs.ts'
import { Databases } from './resources/databases.ts'
import { Groups } from './resources/groups.ts'
import { Invites } from './resources/invites.ts'
import { Locations } from './resources/locations.ts'
import { Members } from './resources/members.ts'
import { Organizations } from './resources/organizations.ts'
import { Users } from './resources/users.ts'
import { Unstable } from './unstable/unstable.ts'

export interface PlatformRequestOptions extends PlatformCallOptions {
  readonly query?: Query | undefined
  /** Sent as JSON, or as it is when it is a FormData. */
  readonly body?: object | undefined
  /** Whether it does no harm to run it twice. @default true for GET, PUT and DELETE */
  readonly isRepeatable?: boolean | undefined
}

const REQUEST = { ...CALL, query: 'object', body: 'object', isRepeatable: 'boolean' }
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/**
 * Client of the platform API. Every call throws a PlatformError when it fails: NotFoundError, ForbiddenError, … by what the
 * service answered, ConnectionError, TimeoutError or AbortedError without an answer, DecodeError for an answer that is not
 * the documented one. It holds nothing open and need not be closed.
 */
export class PlatformClient {
  readonly databases: Databases
  readonly groups: Groups
  readonly locations: Locations
  readonly organizations: Organizations
  readonly members: Members
  readonly invites: Invites
  readonly apiTokens: ApiTokens
  readonly auditLogs: AuditLogs
  readonly users: Users
  /** Routes that the service's documentation lacks. They may change at any time. */
  readonly unstable: Unstable
  readonly #http: PlatformHttp

  constructor(config: ResolvedPlatformConfig, clock: Clock = systemClock) {
    const http = new PlatformHttp(config, clock)
    this.#http = http
    this.databases = new Databases(http)
    this.groups = new Groups(http)
    this.locations = new Locations(http)
    this.organizations = new Organizations(http)
    this.members = new Members(http)
    this.invites = new Invites(http)
    this.apiTokens = new ApiTokens(http)
    this.auditLogs = new AuditLogs(http)
    this.users = new Users(http)
    this.unstable = new Unstable(http)
  }

  /** The same client for another organization. @param slug its slug, or that of the personal account */
  forOrganization(slug: string): PlatformClient {
    return new PlatformClient({ ...this.#http.config, organization: slug }, this.#http.clock)
  }

  /**
   * A function that gives a token that is valid, for `createClient({ authToken })`: it makes short ones, one at a time, and
   * the next before the last one ends.
   * @throws TypeError for a `ttl` that is no length of time; the function throws the PlatformError of the call that makes one
   */
  databaseToken(options: DatabaseTokenOptions): DatabaseTokenProvider {
    return databaseTokenProvider(this.#http, this, options)
  }

  /**
   * Sends a request of your own, with the same token, repetitions and errors.
   * @param path begins with `/` and a version; its segments are encoded
   * @returns the JSON of the answer as it came; undefined for an empty one
   */
  request<T = unknown>(
    method: Route['method'],
    path: string,
    options: PlatformRequestOptions = {},
  ): PlatformCall<T> {
    checkOptions(options, REQUEST)
    if (!METHODS.includes(method)) throw new TypeError(`method must be one of ${METHODS.join(', ')}`)
    const { query, body, isRepeatable, ...callOptions } = options
    const route = { method, path: checkPath(path), query, body, isRepeatable }
    return this.#http.call(route, callOptions, (answer) => answer.body as T)
  }
}

/** Makes a client of the platform API. Sends nothing. @throws TypeError naming the option that is wrong */
export function createPlatformClient(config: PlatformConfig): PlatformClient {
  return new PlatformClient(resolvePlatformConfig(config))
}
