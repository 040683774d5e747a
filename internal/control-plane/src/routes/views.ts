import { ApiError } from '../api-error.ts'
import type { ApiTokenRow, DatabaseRow, GroupRow, OrganizationRow } from '../registry/rows.ts'
import { LOCAL } from '../rules/locations.ts'
import type { Plan } from '../rules/plans.ts'
import type { UsageTotal } from '../usage.ts'
import type { Call } from './call.ts'

export function formatTime(ms: number): string {
  return new Date(ms).toISOString()
}

/** Returns the part after `http://` in the URL of a database's primary, or of its replica in a location. */
export function getHostname(
  { platform, plane }: Call,
  row: DatabaseRow,
  location: string | null = null,
): string {
  return plane.addresses.getHostname(row, platform.databaseOrigin(), location)
}

export function databaseView(call: Call, row: DatabaseRow) {
  const { registry } = call.plane
  const group = registry.groups.get(row.group)
  const schema = row.schema === null ? null : (registry.databases.get(row.schema)?.name ?? null)
  return {
    Name: row.name,
    DbId: row.id,
    Hostname: getHostname(call, row),
    block_reads: row.configuration.blockReads,
    block_writes: row.configuration.blockWrites,
    allow_attach: row.configuration.allowAttach,
    regions: group?.locations ?? [],
    // the vendor's CLI uses plain HTTP for this region, and TLS for all others
    primaryRegion: call.plane.addresses.hasDomain ? (group?.primary ?? LOCAL) : LOCAL,
    group: group?.name ?? '',
    delete_protection: row.configuration.deleteProtection,
    parent:
      row.parent === null
        ? null
        : { id: row.parent.id, name: row.parent.name, branched_at: formatTime(row.parent.branchedAt) },
    type: 'logical',
    version: call.platform.version,
    sleeping: false,
    archived: group?.isArchived ?? false,
    is_schema: row.isSchema,
    schema,
  }
}

/** Describes a group in the service's format. All of its locations are reported as available. */
export function groupView(call: Call, row: GroupRow) {
  return {
    name: row.name,
    uuid: row.id,
    version: call.platform.version,
    primary: row.primary,
    locations: row.locations,
    delete_protection: row.deleteProtection,
    archived: row.isArchived,
    status: { locations: row.locations.map((name) => ({ name, status: 'up' })) },
  }
}

export function organizationView(row: OrganizationRow) {
  return {
    id: row.id,
    name: row.name,
    slug: row.slug,
    type: row.type,
    overages: row.overages,
    require_mfa: row.requireMfa,
    blocked_reads: row.blockedReads,
    blocked_writes: row.blockedWrites,
    plan_id: row.plan,
    plan_timeline: row.timeline,
    platform: '',
  }
}

/** Describes a token without its secret, which is shown only once. */
export function apiTokenView({ plane: { registry } }: Call, row: ApiTokenRow) {
  const organization = registry.organizations.get(row.organization ?? '')
  const group = registry.groups.get(row.group ?? '')
  return {
    id: row.id,
    name: row.name,
    created_at: formatTime(row.createdAt).slice(0, 'yyyy-mm-dd'.length),
    ...(organization !== undefined && { organization: organization.slug }),
    ...(group !== undefined && { group: group.name }),
    ...(row.scopes !== null && { scopes: row.scopes }),
  }
}

export function usageView({ rowsRead, rowsWritten, storageBytes, bytesSynced }: UsageTotal) {
  return {
    rows_read: rowsRead,
    rows_written: rowsWritten,
    storage_bytes: storageBytes,
    bytes_synced: bytesSynced,
  }
}

/** Returns a plan's quotas in the format of usage; 0 means unlimited. */
export function allowanceView({ quotas }: Plan) {
  const { rowsRead, rowsWritten, storage, bytesSynced, databases, groups, locations } = quotas
  const used = { rowsRead, rowsWritten, storageBytes: storage, bytesSynced }
  return { ...usageView(used), databases, groups, locations }
}

/** Parses a role, by default `member`. @throws ApiError unless it can be assigned */
export function readRole(text: string | null | undefined): 'admin' | 'member' | 'viewer' {
  const role = text ?? 'member'
  if (role !== 'admin' && role !== 'member' && role !== 'viewer') throw new ApiError(400, 'invalid role')
  return role
}
