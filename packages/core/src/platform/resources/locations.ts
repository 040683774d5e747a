import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import type { PlatformHttp } from '../platform-http.ts'
import { path } from '../platform-path.ts'

/** Places where a group can be. */
export class Locations {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  /** Descriptions by their codes. */
  list(options: PlatformCallOptions = {}): PlatformCall<Readonly<Record<string, string>>> {
    return this.#http.call({ method: 'GET', path: path`/v1/locations` }, options, (answer) =>
      answer.map<string>('locations'),
    )
  }
}
