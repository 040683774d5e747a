import type { Known } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import type { PlatformHttp } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import { waitForLocation } from '../resources/groups.ts'
import type { Raw } from '../view.ts'

export interface AwsMigration extends Raw {
  readonly status: Known<'none' | 'pending' | 'finished' | 'aborted'>
  readonly comment?: string
}

export class UnstableGroups {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  rename(name: string, to: string, options: PlatformCallOptions = {}): PlatformCall<void> {
    const http = this.#http
    return http.command(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/groups/${name}/rename`,
        body: { name: to },
      },
      options,
    )
  }

  /** Waits until a location is ready: the service answers when it is. */
  waitForLocation(name: string, location: string, options: PlatformCallOptions = {}): PlatformCall<void> {
    return waitForLocation(this.#http, name, location, options)
  }

  /** How far the move of a group to AWS is. */
  getAwsMigration(name: string, options: PlatformCallOptions = {}): PlatformCall<AwsMigration> {
    const http = this.#http
    return http.call(
      {
        method: 'GET',
        path: path`/v1/organizations/${http.organization}/groups/${name}/aws/migration/info`,
      },
      options,
      (answer) => answer.whole<AwsMigration>(),
    )
  }

  startAwsMigration(name: string, options: PlatformCallOptions = {}): PlatformCall<void> {
    const http = this.#http
    return http.command(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/groups/${name}/aws/migration/start`,
      },
      options,
    )
  }

  abortAwsMigration(name: string, options: PlatformCallOptions = {}): PlatformCall<void> {
    const http = this.#http
    return http.command(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/groups/${name}/aws/migration/abort`,
      },
      options,
    )
  }
}
