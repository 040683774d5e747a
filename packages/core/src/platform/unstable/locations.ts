import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import type { PlatformHttp } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import type { Raw } from '../view.ts'

export interface Location extends Raw {
  readonly code: string
  readonly description: string
  readonly closest: readonly { readonly code: string; readonly description: string }[]
}

export class UnstableLocations {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  /** Locations for the organization: descriptions by provider and code. */
  list(
    options: PlatformCallOptions = {},
  ): PlatformCall<Readonly<Record<string, Readonly<Record<string, string>>>>> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v2/organizations/${http.organization}/locations` },
      options,
      (answer) => answer.map<Readonly<Record<string, string>>>('locations'),
    )
  }

  /** A location and those close to it. */
  get(code: string, options: PlatformCallOptions = {}): PlatformCall<Location> {
    return this.#http.call({ method: 'GET', path: path`/v1/locations/${code}` }, options, (answer) =>
      answer.object<Location>('location', 'code'),
    )
  }
}
