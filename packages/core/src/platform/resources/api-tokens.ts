import { checkOptions } from '../../base/check-options.ts'
import type { ApiToken, CreatedApiToken, OrganizationApiToken, Scope, ScopePreset } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { CALL, type Deleted, type PlatformHttp, REMOVE, type RemoveOptions } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import { bodyOf } from '../view.ts'

/** What an API token is for. Without any of it: for all organizations of the caller, which the service wants to end. */
export interface ApiTokenReach {
  /** Slug of the one organization. */
  readonly organization?: string | undefined
  /** The one group in it; only admins and owners may make such a token. */
  readonly group?: string | undefined
  /** What it may do in the group. */
  readonly scopes?: readonly (Scope | ScopePreset)[] | undefined
}

export const REACH = { organization: 'string', group: 'string', scopes: 'object' }

/** The body for a reach; none for an empty one. */
export function reachBody(reach: ApiTokenReach): object | undefined {
  const body = bodyOf(reach)
  return Object.keys(body).length > 0 ? body : undefined
}

/** Tokens of the platform API. */
export class ApiTokens {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  /** Until when the client's own token is valid; null for one without end. @throws UnauthorizedError when it is not */
  validate(options: PlatformCallOptions = {}): PlatformCall<{ readonly expiresAt: Date | null }> {
    return this.#http.call({ method: 'GET', path: path`/v1/auth/validate` }, options, (answer) => {
      const seconds = answer.number('exp')
      return { expiresAt: seconds === -1 ? null : new Date(seconds * 1_000) }
    })
  }

  /** Tokens that the caller made. */
  list(options: PlatformCallOptions = {}): PlatformCall<ApiToken[]> {
    return this.#http.call({ method: 'GET', path: path`/v1/auth/api-tokens` }, options, (answer) =>
      answer.list<ApiToken>('tokens'),
    )
  }

  /** Makes a token. Its secret is in this answer and nowhere else. Never sent twice when it may have arrived. */
  create(name: string, options: ApiTokenReach & PlatformCallOptions = {}): PlatformCall<CreatedApiToken> {
    checkOptions(options, { ...CALL, ...REACH })
    const { signal, timeoutMs, ...reach } = options
    return this.#http.call(
      { method: 'POST', path: path`/v1/auth/api-tokens/${name}`, body: reachBody(reach) },
      { signal, timeoutMs },
      (answer) => answer.object<CreatedApiToken>('token', 'token'),
    )
  }

  /** Ends a token that the caller made. */
  revoke(name: string, options: RemoveOptions = {}): PlatformCall<Deleted> {
    checkOptions(options, REMOVE)
    return this.#http.remove({ method: 'DELETE', path: path`/v1/auth/api-tokens/${name}` }, options)
  }

  /** Tokens for the organization: all of them for admins and owners, for others those that they made. */
  listOfOrganization(options: PlatformCallOptions = {}): PlatformCall<OrganizationApiToken[]> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/api-tokens` },
      options,
      (answer) => answer.list<OrganizationApiToken>('tokens'),
    )
  }

  /** Ends a token for the organization. @param id not its name. @throws NotFoundError also for another organization's */
  revokeOfOrganization(id: string, options: RemoveOptions = {}): PlatformCall<Deleted> {
    checkOptions(options, REMOVE)
    const http = this.#http
    return http.remove(
      { method: 'DELETE', path: path`/v1/organizations/${http.organization}/api-tokens/${id}` },
      options,
    )
  }
}
