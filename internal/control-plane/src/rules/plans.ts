import { ApiError } from '../api-error.ts'

const UNLIMITED = {
  rowsRead: 0,
  rowsWritten: 0,
  databases: 0,
  locations: 0,
  storage: 0,
  groups: 0,
  bytesSynced: 0,
}

/** A plan; prices are in dollars per month, as text. */
export interface Plan {
  readonly name: string
  readonly price: string
  /** By the month; 0 means unlimited. */
  readonly quotas: Readonly<typeof UNLIMITED>
}

const MILLION = 1_000_000
const GIGABYTE = 1_000_000_000

/** The available plans. Nothing is charged or enforced. */
export const PLANS: readonly Plan[] = [
  {
    name: 'starter',
    price: '0',
    quotas: {
      rowsRead: 500 * MILLION,
      rowsWritten: 10 * MILLION,
      databases: 100,
      locations: 3,
      storage: 5 * GIGABYTE,
      groups: 1,
      bytesSynced: 3 * GIGABYTE,
    },
  },
  { name: 'developer', price: '5', quotas: { ...UNLIMITED, storage: 10 * GIGABYTE } },
  { name: 'scaler', price: '25', quotas: { ...UNLIMITED, storage: 25 * GIGABYTE } },
  { name: 'pro', price: '400', quotas: { ...UNLIMITED, storage: 50 * GIGABYTE } },
  { name: 'enterprise', price: '0', quotas: UNLIMITED },
]

export function isPlan(name: string): boolean {
  return PLANS.some((plan) => plan.name === name)
}

/** Returns a plan by its name. @throws Error if it does not exist */
export function getPlan(name: string): Plan {
  const plan = PLANS.find((candidate) => candidate.name === name)
  if (plan === undefined) throw new Error(`plan "${name}" does not exist`)
  return plan
}

/** Checks that a plan includes the audit log and invites. @param feature named in the error @throws ApiError 402 */
export function checkTeamFeatures(plan: string, feature: string): void {
  if (plan !== 'starter' && plan !== 'developer') return
  // the service has this code for both plans
  const code = 'feature_not_available_for_starter_plan'
  throw new ApiError(402, `${feature} not included in the current plan`, code)
}
