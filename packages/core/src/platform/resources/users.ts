import type { User } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import type { PlatformHttp } from '../platform-http.ts'
import { path } from '../platform-path.ts'

/** The user whose token it is. */
export class Users {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  current(options: PlatformCallOptions = {}): PlatformCall<User> {
    return this.#http.call({ method: 'GET', path: path`/v1/user` }, options, (answer) =>
      answer.object<User>('user', 'username'),
    )
  }
}
