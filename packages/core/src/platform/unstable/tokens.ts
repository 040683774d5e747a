import { checkOptions } from '../../base/check-options.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { CALL, type PlatformHttp } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import { type ApiTokenReach, REACH, reachBody } from '../resources/api-tokens.ts'
import type { Raw } from '../view.ts'

export class UnstableTokens {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  /** Makes an API token by the route of version 2, which calls the secret `value`. Never sent twice when it may have arrived. */
  create(
    name: string,
    options: ApiTokenReach & PlatformCallOptions = {},
  ): PlatformCall<{ readonly id: string; readonly name: string; readonly value: string } & Raw> {
    checkOptions(options, { ...CALL, ...REACH })
    const { signal, timeoutMs, ...reach } = options
    return this.#http.call(
      { method: 'POST', path: path`/v2/auth/api-tokens/${name}`, body: reachBody(reach) },
      { signal, timeoutMs },
      (answer) => answer.object('token', 'value'),
    )
  }

  /** Ends every session of the user. @returns from when on sessions are valid */
  invalidateSessions(options: PlatformCallOptions = {}): PlatformCall<{ readonly validFrom: number } & Raw> {
    return this.#http.call({ method: 'POST', path: path`/v1/auth/invalidate` }, options, (answer) =>
      answer.whole<{ readonly validFrom: number } & Raw>(),
    )
  }

  /** The user of the token, by an older route. */
  currentUser(
    options: PlatformCallOptions = {},
  ): PlatformCall<{ readonly username: string; readonly plan: string } & Raw> {
    return this.#http.call({ method: 'GET', path: path`/v1/current-user` }, options, (answer) =>
      answer.object('user', 'username'),
    )
  }

  /** Newest version of the service's command line. */
  latestRelease(options: PlatformCallOptions = {}): PlatformCall<string> {
    return this.#http.call({ method: 'GET', path: path`/releases/latest` }, options, (answer) =>
      answer.text('latest'),
    )
  }
}
