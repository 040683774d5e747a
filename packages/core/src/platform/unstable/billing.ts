import { checkOptions } from '../../base/check-options.ts'
import type { Plan } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import type { PlatformHttp } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import { bodyOf, type Raw } from '../view.ts'

export interface CustomerInput {
  readonly name?: string | undefined
  readonly email?: string | undefined
  readonly taxId?: { readonly value: string; readonly country: string } | undefined
  readonly billingAddress?:
    | {
        readonly line1?: string | undefined
        readonly line2?: string | undefined
        readonly city?: string | undefined
        readonly state?: string | undefined
        readonly postalCode?: string | undefined
        readonly country?: string | undefined
      }
    | undefined
}

export type Customer = CustomerInput & Raw

const SUBSCRIPTION = { plan: 'string', timeline: "'monthly' or 'yearly'", overages: 'boolean' }
const CUSTOMER = { name: 'string', email: 'string', taxId: 'object', billingAddress: 'object' }

export class UnstableBilling {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  /** Plans that everybody can choose. */
  plans(options: PlatformCallOptions = {}): PlatformCall<Plan[]> {
    return this.#http.call({ method: 'GET', path: path`/v1/plans` }, options, (answer) =>
      answer.list<Plan>('plans'),
    )
  }

  updateSubscription(
    subscription: {
      readonly plan: string
      readonly timeline?: 'monthly' | 'yearly' | undefined
      readonly overages?: boolean | undefined
    },
    options: PlatformCallOptions = {},
  ): PlatformCall<void> {
    checkOptions(subscription, SUBSCRIPTION)
    const http = this.#http
    return http.command(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/subscription`,
        body: bodyOf(subscription),
      },
      options,
    )
  }

  /** Makes a page where payment can be arranged. @returns its URL */
  createPortal(options: PlatformCallOptions = {}): PlatformCall<{ readonly url: string } & Raw> {
    const http = this.#http
    return http.call(
      { method: 'POST', path: path`/v1/organizations/${http.organization}/billing/portal` },
      options,
      (answer) => answer.object<{ readonly url: string } & Raw>('portal', 'url'),
    )
  }

  /** Whether a way to pay is known. */
  hasPaymentMethod(options: PlatformCallOptions = {}): PlatformCall<boolean> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/billing/payment-methods` },
      options,
      (answer) => answer.whole<{ readonly exists: boolean }>().exists,
    )
  }

  getCustomer(options: PlatformCallOptions = {}): PlatformCall<Customer> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/billing/customer` },
      options,
      (answer) => answer.whole<Customer>(),
    )
  }

  updateCustomer(customer: CustomerInput, options: PlatformCallOptions = {}): PlatformCall<void> {
    checkOptions(customer, CUSTOMER)
    const http = this.#http
    return http.command(
      {
        method: 'PUT',
        path: path`/v1/organizations/${http.organization}/billing/customer`,
        body: bodyOf(customer),
      },
      options,
    )
  }

  /** Makes a customer at the payment provider, before an organization is made. @returns its id there */
  createStripeCustomer(name: string, options: PlatformCallOptions = {}): PlatformCall<string> {
    return this.#http.call(
      { method: 'POST', path: path`/v1/organizations/stripe-customer`, body: { name } },
      options,
      (answer) => answer.text('stripeCustomerId'),
    )
  }
}
