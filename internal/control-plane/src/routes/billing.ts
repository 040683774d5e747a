import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import type { OrganizationRow } from '../registry/rows.ts'
import { isPlan, PLANS } from '../rules/plans.ts'
import { ANY_TOKEN } from './access.ts'
import type { Call } from './call.ts'
import { Plan } from './models.ts'
import { documented, ORGANIZATION, type Route, returns, undocumented } from './route.ts'

const INVOICE_TYPES = ['all', 'upcoming', 'issued'] as const

const SubscriptionBody = v.object({
  plan: v.string(),
  timeline: v.nullish(v.picklist(['monthly', 'yearly'])),
  overages: v.nullish(v.boolean()),
})
const Subscription = v.object({
  name: v.string(),
  overages: v.boolean(),
  plan: v.string(),
  timeline: v.string(),
})
const Invoice = v.object({
  invoice_number: v.string(),
  amount_due: v.string(),
  due_date: v.string(),
  paid_at: v.string(),
  payment_failed_at: v.string(),
  invoice_pdf: v.string(),
})
const LIST_PLANS = returns({ plans: v.array(Plan) })
const LIST_INVOICES = returns({ invoices: v.array(Invoice) }, { query: ['type'] })
/** Plans, which set the allowances of usage, and the subscription to one. Nothing is billed, so there are no invoices. */
export const billingRoutes: readonly Route[] = [
  documented(`GET ${ORGANIZATION}/plans`, 'viewer', LIST_PLANS, listPlans),
  undocumented('GET /v1/plans', ANY_TOKEN, LIST_PLANS, listPlans),
  documented(`GET ${ORGANIZATION}/invoices`, 'viewer', LIST_INVOICES, listInvoices),
  documented(
    `GET ${ORGANIZATION}/subscription`,
    'viewer',
    returns({ subscription: Subscription }),
    ({ organization }) => ({
      subscription: subscriptionView(organization),
    }),
  ),
  undocumented(
    `POST ${ORGANIZATION}/subscription`,
    'admin',
    { body: SubscriptionBody, response: null },
    subscribe,
  ),
]

function listPlans() {
  return { plans: PLANS.map((plan) => ({ ...plan, prices: [{ value: plan.price, timeline: 'monthly' }] })) }
}

function listInvoices(call: Call) {
  const type = call.query('type') ?? 'all'
  if (!(INVOICE_TYPES as readonly string[]).includes(type))
    throw new ApiError(400, `invalid type: expected one of ${INVOICE_TYPES.join(', ')}`)
  return { invoices: [] }
}

function subscriptionView({ plan, overages, timeline }: OrganizationRow) {
  return { name: plan, overages, plan, timeline }
}

function subscribe(call: Call): void {
  const { organization, plane } = call
  const body = call.body(SubscriptionBody)
  if (!isPlan(body.plan)) throw new ApiError(400, `plan ${body.plan.slice(0, 40)} does not exist`)
  const row: OrganizationRow = {
    ...organization,
    plan: body.plan,
    timeline: body.timeline ?? organization.timeline,
    overages: body.overages ?? organization.overages,
  }
  const data = { plan: body.plan }
  call.commit({ code: 'org-plan-update', message: `changed the plan to ${body.plan}`, data }, () =>
    plane.registry.organizations.put(row),
  )
}
