import { checkOptions } from '../../base/check-options.ts'
import type { Organization } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { CALL, type Deleted, type PlatformHttp, REMOVE, type RemoveOptions } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import { bodyOf } from '../view.ts'

export class UnstableOrganizations {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  /** Organizations of the caller, with their ids. */
  list(options: PlatformCallOptions = {}): PlatformCall<(Organization & { readonly id: string })[]> {
    return this.#http.call({ method: 'GET', path: path`/v2/organizations` }, options, (answer) =>
      answer.list<Organization & { readonly id: string }>('organizations'),
    )
  }

  /**
   * Makes an organization. @param options `dryRun`: only checks whether it could be made
   * @throws ConflictError when the name is taken, PaymentRequiredError
   */
  create(
    organization: { readonly name: string; readonly stripeId?: string | undefined },
    options: PlatformCallOptions & { readonly dryRun?: boolean | undefined } = {},
  ): PlatformCall<Organization> {
    checkOptions(organization, { name: 'string', stripeId: 'string' })
    checkOptions(options, { ...CALL, dryRun: 'boolean' })
    const { dryRun, ...callOptions } = options
    return this.#http.call(
      {
        method: 'POST',
        path: path`/v1/organizations`,
        query: { dry_run: dryRun },
        body: bodyOf(organization),
      },
      callOptions,
      (answer) => answer.object<Organization>('org', 'name'),
    )
  }

  /** Deletes the organization of the client. */
  delete(options: RemoveOptions = {}): PlatformCall<Deleted> {
    checkOptions(options, REMOVE)
    const http = this.#http
    return http.remove({ method: 'DELETE', path: path`/v1/organizations/${http.organization}` }, options)
  }
}
