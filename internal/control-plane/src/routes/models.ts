// Schemas of the responses, for the OpenAPI description. Most of the responses are created in `views.ts`.
import * as v from 'valibot'
import { Integer, Time } from './json-types.ts'

export const Database = v.object({
  Name: v.string(),
  DbId: v.string(),
  Hostname: v.string(),
  block_reads: v.boolean(),
  block_writes: v.boolean(),
  allow_attach: v.boolean(),
  regions: v.array(v.string()),
  primaryRegion: v.string(),
  group: v.string(),
  delete_protection: v.boolean(),
  parent: v.nullable(v.object({ id: v.string(), name: v.string(), branched_at: Time })),
  type: v.literal('logical'),
  version: v.string(),
  sleeping: v.boolean(),
  archived: v.boolean(),
  is_schema: v.boolean(),
  schema: v.nullable(v.string()),
})

/** A database in version 3 of the API, in which no field name begins with a capital letter. */
export const DatabaseById = v.object({
  dbId: v.string(),
  name: v.string(),
  hostname: v.string(),
  ...v.omit(Database, ['DbId', 'Name', 'Hostname']).entries,
  allow_rules_config: v.object({
    allowed_ips: v.array(v.string()),
    allowed_aws_vpc_ids: v.array(v.string()),
  }),
})

export const DatabaseConfiguration = v.object({
  size_limit: v.string(),
  allow_attach: v.boolean(),
  block_reads: v.boolean(),
  block_writes: v.boolean(),
  delete_protection: v.boolean(),
  allowed_ips: v.array(v.string()),
  allowed_aws_vpc_ids: v.array(v.string()),
})

export const Instance = v.object({
  uuid: v.string(),
  name: v.string(),
  type: v.picklist(['primary', 'replica']),
  region: v.string(),
  hostname: v.string(),
})

export const Group = v.object({
  name: v.string(),
  uuid: v.string(),
  version: v.string(),
  primary: v.string(),
  locations: v.array(v.string()),
  delete_protection: v.boolean(),
  archived: v.boolean(),
  status: v.object({ locations: v.array(v.object({ name: v.string(), status: v.string() })) }),
})

export const Organization = v.object({
  id: v.string(),
  name: v.string(),
  slug: v.string(),
  type: v.picklist(['personal', 'team']),
  overages: v.boolean(),
  require_mfa: v.boolean(),
  blocked_reads: v.boolean(),
  blocked_writes: v.boolean(),
  plan_id: v.string(),
  plan_timeline: v.picklist(['monthly', 'yearly']),
  platform: v.string(),
})

export const Member = v.object({
  username: v.string(),
  role: v.picklist(['viewer', 'member', 'admin', 'owner']),
  email: v.string(),
})

export const User = v.object({
  username: v.string(),
  name: v.string(),
  email: v.string(),
  avatarUrl: v.string(),
  plan: v.string(),
  mfa: v.boolean(),
  has_pending_invites: v.boolean(),
})

export const ApiToken = v.object({
  id: v.string(),
  name: v.string(),
  created_at: v.pipe(v.string(), v.isoDate()),
  organization: v.optional(v.string()),
  group: v.optional(v.string()),
  scopes: v.optional(v.array(v.string())),
})

export const Usage = v.object({
  rows_read: Integer,
  rows_written: Integer,
  storage_bytes: Integer,
  bytes_synced: Integer,
})

export const OrganizationUsage = v.object({
  ...Usage.entries,
  databases: Integer,
  groups: Integer,
  locations: Integer,
})

export const DatabaseUsage = v.object({
  uuid: v.string(),
  instances: v.array(v.object({ uuid: v.string(), usage: Usage })),
  total: Usage,
  usage: Usage,
})

export const QueryUsage = v.object({ query: v.string(), rows_read: Integer, rows_written: Integer })

export const Plan = v.object({
  name: v.string(),
  price: v.string(),
  prices: v.array(v.object({ value: v.string(), timeline: v.string() })),
  quotas: v.object({
    rowsRead: Integer,
    rowsWritten: Integer,
    databases: Integer,
    locations: Integer,
    storage: Integer,
    groups: Integer,
    bytesSynced: Integer,
  }),
})

/** The body of every error response. */
export const Failure = v.object({ error: v.string(), code: v.optional(v.string()) })
