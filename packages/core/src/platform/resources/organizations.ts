import { checkOptions } from '../../base/check-options.ts'
import type { Invoice, Organization, OrganizationUsage, Plan, Subscription } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { CALL, type PlatformHttp } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import { bodyOf } from '../view.ts'
import { readUsage } from './usage.ts'

const UPDATE = { overages: 'boolean', requireMfa: 'boolean' }

/** The organization of the client, and all that the caller belongs to. */
export class Organizations {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  /** Organizations of the caller, the personal account among them. */
  list(options: PlatformCallOptions = {}): PlatformCall<Organization[]> {
    return this.#http.call({ method: 'GET', path: path`/v1/organizations` }, options, (answer) =>
      answer.list<Organization>('organizations'),
    )
  }

  /** The organization of the client. @throws NotFoundError */
  get(options: PlatformCallOptions = {}): PlatformCall<Organization> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}` },
      options,
      (answer) => answer.object<Organization>('organization', 'slug'),
    )
  }

  /** @param changes what is left out stays; `requireMfa` needs a caller that uses it */
  update(
    changes: { readonly overages?: boolean | undefined; readonly requireMfa?: boolean | undefined },
    options: PlatformCallOptions = {},
  ): PlatformCall<Organization> {
    checkOptions(changes, UPDATE)
    const http = this.#http
    return http.call(
      { method: 'PATCH', path: path`/v1/organizations/${http.organization}`, body: bodyOf(changes) },
      options,
      (answer) => answer.object<Organization>('organization', 'slug'),
    )
  }

  /** What the organization used in this period, and each of its databases. */
  usage(options: PlatformCallOptions = {}): PlatformCall<OrganizationUsage> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/usage` },
      options,
      (answer) => {
        const usage = answer.object<OrganizationUsage>('organization', 'uuid')
        const databases = usage.databases.map((database) => readUsage(database))
        return Object.defineProperty({ ...usage, databases }, 'raw', {
          value: usage.raw,
        })
      },
    )
  }

  /** Plans to choose from, with their quotas. */
  plans(options: PlatformCallOptions = {}): PlatformCall<Plan[]> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/plans` },
      options,
      (answer) => answer.list<Plan>('plans'),
    )
  }

  invoices(
    options: PlatformCallOptions & { readonly type?: 'all' | 'upcoming' | 'issued' | undefined } = {},
  ): PlatformCall<Invoice[]> {
    checkOptions(options, { ...CALL, type: "'all' or 'upcoming' or 'issued'" })
    const { type, ...callOptions } = options
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/invoices`, query: { type } },
      callOptions,
      (answer) => answer.list<Invoice>('invoices'),
    )
  }

  subscription(options: PlatformCallOptions = {}): PlatformCall<Subscription> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/subscription` },
      options,
      (answer) => answer.object<Subscription>('subscription', 'plan'),
    )
  }
}
