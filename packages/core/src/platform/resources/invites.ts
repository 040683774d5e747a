import { checkOptions } from '../../base/check-options.ts'
import type { AssignableRole, Invite, InvitedMember } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { type Deleted, type PlatformHttp, REMOVE, type RemoveOptions } from '../platform-http.ts'
import { path } from '../platform-path.ts'

/** Whom to invite: by one of the two. */
export type NewInvite = { readonly role?: AssignableRole | undefined } & (
  | { readonly email: string; readonly username?: undefined }
  | { readonly username: string; readonly email?: undefined }
)

const NEW_INVITE = { email: 'string', username: 'string', role: 'string' }

/** Invitations to the organization that are not accepted yet. */
export class Invites {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  list(options: PlatformCallOptions = {}): PlatformCall<Invite[]> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v2/organizations/${http.organization}/invites` },
      options,
      (answer) => answer.list<Invite>('invites'),
    )
  }

  /** Invites somebody, in place of an invitation that is open. @param invite `role` is by default `member` */
  create(invite: NewInvite, options: PlatformCallOptions = {}): PlatformCall<InvitedMember> {
    checkOptions(invite, NEW_INVITE)
    if ((invite.email === undefined) === (invite.username === undefined))
      throw new TypeError('an invite needs either email or username')
    const http = this.#http
    return http.call(
      {
        method: 'POST',
        path: path`/v2/organizations/${http.organization}/invites`,
        body: invite,
      },
      options,
      (answer) => answer.object<InvitedMember>('invited', 'email'),
    )
  }

  delete(email: string, options: RemoveOptions = {}): PlatformCall<Deleted> {
    checkOptions(options, REMOVE)
    const http = this.#http
    return http.remove(
      { method: 'DELETE', path: path`/v2/organizations/${http.organization}/invites/${email}` },
      options,
    )
  }
}
