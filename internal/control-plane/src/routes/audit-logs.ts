import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import { checkTeamFeatures } from '../rules/plans.ts'
import type { Call } from './call.ts'
import { Integer, Time } from './json-types.ts'
import { documented, ORGANIZATION, type Route, returns } from './route.ts'
import { formatTime } from './views.ts'

const MAX_PAGE_SIZE = 1_000

const LIST = returns(
  {
    audit_logs: v.array(
      v.object({
        code: v.string(),
        message: v.string(),
        data: v.record(v.string(), v.unknown()),
        origin: v.string(),
        author: v.string(),
        created_at: Time,
      }),
    ),
    pagination: v.object({
      page: Integer,
      page_size: Integer,
      total_pages: Integer,
      total_rows: Integer,
    }),
  },
  { query: ['page', 'page_size'] },
)

export const auditLogRoutes: readonly Route[] = [
  documented(`GET ${ORGANIZATION}/audit-logs`, 'viewer', LIST, listAuditLogs),
]

function listAuditLogs(call: Call) {
  const { organization, plane } = call
  checkTeamFeatures(organization.plan, 'the audit log is')
  const page = readCount(call, 'page', 1)
  const pageSize = Math.min(readCount(call, 'page_size', 100), MAX_PAGE_SIZE)
  const totalRows = plane.audit.count(organization.id)
  const entries = plane.audit.getPage(organization.id, page, pageSize)
  return {
    audit_logs: entries.map(({ createdAt, ...entry }) => ({ ...entry, created_at: formatTime(createdAt) })),
    pagination: {
      page,
      page_size: pageSize,
      total_pages: Math.ceil(totalRows / pageSize),
      total_rows: totalRows,
    },
  }
}

function readCount(call: Call, name: string, defaultValue: number): number {
  const text = call.query(name)
  if (text === undefined) return defaultValue
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new ApiError(400, `invalid ${name}: expected a positive whole number`)
  return Number(text)
}
