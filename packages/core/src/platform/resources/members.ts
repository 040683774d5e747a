import { checkOptions } from '../../base/check-options.ts'
import type { AssignableRole, Member, Role } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { type Deleted, type PlatformHttp, REMOVE, type RemoveOptions } from '../platform-http.ts'
import { path } from '../platform-path.ts'

const NEW_MEMBER = { username: 'string', role: 'string' }

/** Members of the organization. */
export class Members {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  list(options: PlatformCallOptions = {}): PlatformCall<Member[]> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/members` },
      options,
      (answer) => answer.list<Member>('members'),
    )
  }

  /**
   * Adds a user who has an account; others are invited. @param member `role` is by default `member`
   * @throws NotFoundError for no such user, ConflictError for one who is a member already
   */
  add(
    member: { readonly username: string; readonly role?: AssignableRole | undefined },
    options: PlatformCallOptions = {},
  ): PlatformCall<{ readonly username: string; readonly role: Role }> {
    checkOptions(member, NEW_MEMBER)
    const http = this.#http
    return http.call(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/members`,
        body: member,
      },
      options,
      (answer) => ({ username: answer.text('member'), role: answer.text('role') }),
    )
  }

  /** @throws NotFoundError */
  get(username: string, options: PlatformCallOptions = {}): PlatformCall<Member> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/members/${username}` },
      options,
      (answer) => answer.object<Member>('member', 'username'),
    )
  }

  /** @throws ForbiddenError when the caller is neither admin nor owner */
  updateRole(
    username: string,
    role: AssignableRole,
    options: PlatformCallOptions = {},
  ): PlatformCall<Member> {
    const http = this.#http
    return http.call(
      {
        method: 'PATCH',
        path: path`/v1/organizations/${http.organization}/members/${username}`,
        body: { role },
      },
      options,
      (answer) => answer.object<Member>('member', 'username'),
    )
  }

  remove(username: string, options: RemoveOptions = {}): PlatformCall<Deleted> {
    checkOptions(options, REMOVE)
    const http = this.#http
    return http.remove(
      { method: 'DELETE', path: path`/v1/organizations/${http.organization}/members/${username}` },
      options,
    )
  }
}
