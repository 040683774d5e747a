import { checkOptions } from '../../base/check-options.ts'
import type { AssignableRole } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { type Deleted, type PlatformHttp, REMOVE, type RemoveOptions } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import type { Raw } from '../view.ts'

export interface OldInvite extends Raw {
  readonly id: number
  readonly email: string
  readonly role: AssignableRole
  readonly accepted: boolean
  readonly createdAt: string
}

const NEW_INVITE = { email: 'string', role: 'string' }

export class UnstableInvites {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  list(options: PlatformCallOptions = {}): PlatformCall<OldInvite[]> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/invites` },
      options,
      (answer) => answer.list<OldInvite>('invites'),
    )
  }

  create(
    invite: { readonly email: string; readonly role?: AssignableRole | undefined },
    options: PlatformCallOptions = {},
  ): PlatformCall<OldInvite> {
    checkOptions(invite, NEW_INVITE)
    const http = this.#http
    return http.call(
      { method: 'POST', path: path`/v1/organizations/${http.organization}/invites`, body: invite },
      options,
      (answer) => answer.object<OldInvite>('invited', 'email'),
    )
  }

  delete(email: string, options: RemoveOptions = {}): PlatformCall<Deleted> {
    checkOptions(options, REMOVE)
    const http = this.#http
    return http.remove(
      { method: 'DELETE', path: path`/v1/organizations/${http.organization}/invites/${email}` },
      options,
    )
  }
}
