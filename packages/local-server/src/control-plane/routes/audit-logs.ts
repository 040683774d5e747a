import { Refusal } from '../refusal.ts'
import { hasTeamFeatures } from '../rules/plans.ts'
import { organizationWide } from './access.ts'
import type { Call } from './call.ts'
import { documented, ORGANIZATION, type Route } from './route.ts'
import { timeText } from './views.ts'

const MAX_PAGE_SIZE = 1_000

export const auditLogRoutes: readonly Route[] = [
  documented('GET', `${ORGANIZATION}/audit-logs`, organizationWide('viewer'), listAuditLogs),
]

function listAuditLogs(call: Call) {
  const { organization, plane } = call
  if (!hasTeamFeatures(organization.plan))
    throw new Refusal(402, 'the audit log needs another plan', 'feature_not_available_for_starter_plan')
  const page = readCount(call, 'page', 1)
  const pageSize = Math.min(readCount(call, 'page_size', 100), MAX_PAGE_SIZE)
  const totalRows = plane.audit.count(organization.id)
  const entries = plane.audit.page(organization.id, page, pageSize)
  return {
    audit_logs: entries.map(({ createdAt, ...entry }) => ({ ...entry, created_at: timeText(createdAt) })),
    pagination: {
      page,
      page_size: pageSize,
      total_pages: Math.ceil(totalRows / pageSize),
      total_rows: totalRows,
    },
  }
}

function readCount(call: Call, name: string, missing: number): number {
  const text = call.query(name)
  if (text === undefined) return missing
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new Refusal(400, `invalid ${name}: expected a positive whole number`)
  return Number(text)
}
