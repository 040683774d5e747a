import * as v from 'valibot'
import type { DatabaseRow } from '../registry/rows.ts'
import type { Call } from './call.ts'
import { MINT, mintForDatabase, mintForGroup } from './database-tokens.ts'
import { createDatabase, deleteDatabase, getDatabasePage, NewDatabaseBody } from './databases.ts'
import { DatabaseById, Group } from './models.ts'
import { type Route, returns, undocumented } from './route.ts'
import { databaseView, groupView } from './views.ts'

// Version 3 identifies organizations, groups and databases by id instead of by name.

const ORGANIZATION_V3 = '/v3/organizations/:organizationId'
const DATABASE_V3 = `${ORGANIZATION_V3}/databases/:databaseId`
const GROUP_V3 = `${ORGANIZATION_V3}/groups/:groupId`

const DATABASE_RESPONSE = returns({ database: DatabaseById })
const DATABASE_LIST = returns(
  {
    databases: v.array(DatabaseById),
    pagination: v.optional(v.object({ next: v.nullable(v.string()) })),
  },
  { query: ['group_id', 'parent_db_id', 'limit', 'cursor'] },
)

export const version3Routes: readonly Route[] = [
  undocumented(`GET ${ORGANIZATION_V3}/databases`, 'read', DATABASE_LIST, listDatabases),
  undocumented(
    `POST ${ORGANIZATION_V3}/databases`,
    'db:create',
    { ...DATABASE_RESPONSE, body: NewDatabaseBody },
    async (call) => ({ database: viewWithSettings(call, await createDatabase(call)) }),
  ),
  undocumented(`GET ${DATABASE_V3}`, 'read', DATABASE_RESPONSE, (call) => ({
    database: viewWithSettings(call, call.database()),
  })),
  undocumented(`DELETE ${DATABASE_V3}`, 'db:delete', { response: null }, async (call) => {
    await deleteDatabase(call)
  }),
  undocumented(`POST ${DATABASE_V3}/auth/tokens`, 'db:mint-token', MINT, mintForDatabase),
  undocumented(`GET ${ORGANIZATION_V3}/groups`, 'read', returns({ groups: v.array(Group) }), (call) => ({
    groups: call.groups().map((row) => groupView(call, row)),
  })),
  undocumented(`GET ${GROUP_V3}`, 'read', returns({ group: Group }), (call) => ({
    group: groupView(call, call.group()),
  })),
  undocumented(`POST ${GROUP_V3}/auth/tokens`, 'group:mint-token', MINT, mintForGroup),
]

function listDatabases(call: Call) {
  const { group_id: group, parent_db_id: parent } = Object.fromEntries(call.request.query)
  const { rows, ...pagination } = getDatabasePage(
    call,
    (row) =>
      (group === undefined || row.group === group) && (parent === undefined || row.parent?.id === parent),
  )
  return { databases: rows.map((row) => viewWithSettings(call, row)), ...pagination }
}

/** Describes a database, including the settings that have no separate route in this version. */
function viewWithSettings(call: Call, row: DatabaseRow) {
  const { Name: name, DbId: dbId, Hostname: hostname, ...others } = databaseView(call, row)
  const { allowedIps, allowedAwsVpcIds } = row.configuration
  const rules = { allowed_ips: allowedIps, allowed_aws_vpc_ids: allowedAwsVpcIds }
  return { dbId, name, hostname, ...others, allow_rules_config: rules }
}
