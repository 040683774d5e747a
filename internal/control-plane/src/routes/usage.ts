import * as v from 'valibot'
import { readPeriod } from '../rules/period.ts'
import { getPlan } from '../rules/plans.ts'
import { NO_USAGE, type UsageTotal } from '../usage.ts'
import type { Call } from './call.ts'
import { DatabaseUsage, OrganizationUsage, QueryUsage } from './models.ts'
import { DATABASE, documented, ORGANIZATION, type Route, returns, undocumented } from './route.ts'
import { allowanceView, usageView } from './views.ts'

const DATABASE_USAGE = returns({ database: DatabaseUsage }, { query: ['from', 'to'] })
const STATS = returns({ top_queries: v.nullable(v.array(QueryUsage)) })
const ORGANIZATION_USAGE = returns({
  organization: v.object({
    uuid: v.string(),
    usage: OrganizationUsage,
    allowance: OrganizationUsage,
    databases: v.array(DatabaseUsage),
  }),
})

export const usageRoutes: readonly Route[] = [
  documented(`GET ${DATABASE}/usage`, 'read', DATABASE_USAGE, showDatabaseUsage),
  documented(`GET ${DATABASE}/stats`, 'read', STATS, async (call) => {
    const queries = await topQueries(call)
    return { top_queries: queries.length === 0 ? null : queries }
  }),
  undocumented(`GET ${DATABASE}/usage/queries`, 'read', { response: v.array(QueryUsage) }, topQueries),
  documented(`GET ${ORGANIZATION}/usage`, 'read', ORGANIZATION_USAGE, showOrganizationUsage),
]

async function showDatabaseUsage(call: Call) {
  const row = call.database()
  const period = readPeriod(call.query('from'), call.query('to'), Date.now())
  await call.plane.usage.sample([row])
  return { database: databaseUsageView(row.id, call.plane.usage.getDatabaseUsage(row.id, period)) }
}

function databaseUsageView(id: string, total: UsageTotal) {
  const usage = usageView(total)
  // documented as `total`; the vendor's own tools read `usage`
  return { uuid: id, instances: [{ uuid: id, usage }], total: usage, usage }
}

async function topQueries(call: Call) {
  const queries = await call.plane.backend.topQueries(call.database().id)
  return queries.map(({ query, rowsRead, rowsWritten }) => ({
    query,
    rows_read: rowsRead,
    rows_written: rowsWritten,
  }))
}

/** Returns the usage of the databases that the caller's token can access, and the allowance of the organization's plan. */
async function showOrganizationUsage(call: Call) {
  const { organization, onlyGroup, plane } = call
  const period = readPeriod(undefined, undefined, Date.now())
  await plane.usage.sampleTouched()
  const databases = call.databases()
  const groups = call.groups()
  const ids = databases.map(({ id }) => id)
  const usages = plane.usage.getDatabaseUsages(ids, period)
  return {
    organization: {
      uuid: organization.id,
      usage: {
        ...usageView(plane.usage.getOrganizationUsage(organization.id, period, onlyGroup)),
        databases: databases.length,
        groups: groups.length,
        locations: new Set(groups.flatMap(({ locations }) => locations)).size,
      },
      allowance: allowanceView(getPlan(organization.plan)),
      databases: ids.map((id) => databaseUsageView(id, usages.get(id) ?? NO_USAGE)),
    },
  }
}
