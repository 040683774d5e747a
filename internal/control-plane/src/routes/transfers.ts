import { newKeyPair } from '@batonsql/server-common/auth'
import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import type { DatabaseRow, GroupRow, OrganizationRow } from '../registry/rows.ts'
import { getMaxNameLength } from '../rules/names.ts'
import { isAtLeast } from '../rules/roles.ts'
import type { Call } from './call.ts'
import { checkGroupNameAvailable, listGroupDatabases, revokeGroupTokens } from './groups.ts'
import { Group } from './models.ts'
import { DATABASE, documented, GROUP, type Route, undocumented } from './route.ts'
import { groupView } from './views.ts'

const GroupTransferBody = v.object({ organization: v.string() })
const DatabaseTransferBody = v.object({ org: v.string(), group: v.nullish(v.string()) })

export const transferRoutes: readonly Route[] = [
  documented(`POST ${GROUP}/transfer`, 'admin', { body: GroupTransferBody, response: Group }, transferGroup),
  undocumented(
    `POST ${DATABASE}/transfer`,
    'db:configure',
    { body: DatabaseTransferBody, response: null },
    transferDatabase,
  ),
]

/** Transfers a group to another organization, and invalidates all of its tokens. */
async function transferGroup(call: Call) {
  // usage until now counts for the organization that transfers the group
  await call.plane.usage.sample(listGroupDatabases(call, call.group()))
  // read again, because the group may have changed while its usage was sampled
  const group = call.group()
  const { registry, databases } = call.plane
  const { organization: slug } = call.body(GroupTransferBody)
  const receiver = findReceiver(call, slug)
  if (receiver.id === group.organization) throw new ApiError(400, `the group is already in ${slug}`)
  checkGroupNameAvailable(call, receiver.id, group.name)
  const rows = listGroupDatabases(call, group)
  databases.checkNotRestoring(rows)
  for (const { name } of rows) checkDatabaseNameAvailable(call, receiver, name)
  const movedGroup: GroupRow = { ...group, organization: receiver.id, key: newKeyPair() }
  call.commit(null, () => {
    revokeGroupTokens(call, group)
    registry.groups.put(movedGroup)
    for (const row of rows) registry.databases.put({ ...row, organization: receiver.id, key: newKeyPair() })
  })
  await databases.applyAll(rows, { revoked: 'all' })
  return groupView(call, movedGroup)
}

/**
 * Moves a database to another group, even to one that a group-scoped token cannot access: it has no access to the database there.
 * Invalidates the database's tokens.
 */
async function transferDatabase(call: Call): Promise<void> {
  const row = call.database()
  const { org: slug, group: groupName } = call.body(DatabaseTransferBody)
  if (row.isSchema || row.schema !== null)
    throw new ApiError(
      400,
      `database ${row.name} shares its schema with others, which must be in the same group`,
    )
  const { databases } = call.plane
  const isSameOrganization = slug === call.organization.slug
  if (!isSameOrganization && !isAtLeast(call.role, 'admin'))
    throw new ApiError(403, `transferring to another organization is only allowed for admin or owner`)
  const receiver = isSameOrganization ? call.organization : findReceiver(call, slug)
  const group = findReceivingGroup(call, row, receiver, groupName ?? null)
  if (group.id === row.group) throw new ApiError(400, `database ${row.name} is already in that group`)
  if (group.isArchived) throw new ApiError(400, `group ${group.name} is archived`)
  const checkNameAvailable = (): void => {
    if (!isSameOrganization) checkDatabaseNameAvailable(call, receiver, row.name)
  }
  // `move` repeats this, but aborts the requests in flight even if it fails
  checkNameAvailable()
  // also samples the usage until now, and revokes the tokens
  await databases.move(row, group, checkNameAvailable)
}

/** Returns the requested group; if none is requested, the one with the same name, or else the organization's oldest. */
function findReceivingGroup(
  call: Call,
  row: DatabaseRow,
  { id, slug }: OrganizationRow,
  groupName: string | null,
): GroupRow {
  const { registry } = call.plane
  const group = registry.findGroup(id, groupName ?? registry.groups.get(row.group)?.name ?? '')
  if (group !== undefined) return group
  if (groupName !== null && id === call.organization.id) throw new ApiError(404, 'group not found')
  if (groupName !== null) throw new ApiError(400, `${slug} has no group with that name`)
  const [oldest] = registry.groups.rows
    .filter(({ organization }) => organization === id)
    .sort((a, b) => a.createdAt - b.createdAt)
  if (oldest === undefined) throw new ApiError(400, `${slug} has no group`)
  return oldest
}

/** Returns the organization that receives a transfer, if the caller may transfer to it. */
function findReceiver(call: Call, slug: string): OrganizationRow {
  const { registry } = call.plane
  const { token, user } = call.caller
  const receiver = registry.findOrganization(slug)
  const role = receiver && registry.findMembership(receiver.id, user.id)?.role
  if (receiver === undefined || role === undefined) throw new ApiError(404, 'organization not found')
  if (token.organization !== null && token.organization !== receiver.id)
    throw new ApiError(403, `the token is scoped to an organization, and cannot transfer to ${slug}`)
  if (!isAtLeast(role, 'admin'))
    throw new ApiError(403, `transferring is only allowed for admin or owner of ${slug}`)
  return receiver
}

/**
 * Checks the name and the address of a database in the organization that receives it. A database of another organization can have the
 * same address, as `b` of `a-c` and `b-a` of `c` show: both are `b-a-c`.
 * @throws ApiError
 */
function checkDatabaseNameAvailable(call: Call, receiver: OrganizationRow, name: string): void {
  const { registry, addresses } = call.plane
  const maxLength = getMaxNameLength(receiver.slug)
  if (name.length > maxLength)
    throw new ApiError(
      400,
      `database name ${name} is too long for ${receiver.slug}: at most ${maxLength} characters`,
    )
  if (registry.findDatabase(receiver.id, name) !== undefined)
    throw new ApiError(409, `database with name ${name} already exists in ${receiver.slug}`)
  if (addresses.isTaken(receiver, name))
    throw new ApiError(422, `database name ${name} is not available in ${receiver.slug}`)
}
