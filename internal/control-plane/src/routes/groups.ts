import { newKeyPair } from '@batonsql/server-common/auth'
import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import { newGroup } from '../registry/new-rows.ts'
import type { DatabaseRow, GroupRow } from '../registry/rows.ts'
import { checkLocation } from '../rules/locations.ts'
import { checkGroupName } from '../rules/names.ts'
import type { Call } from './call.ts'
import { checkSupportsReplicas, startReplica, stopRemovedReplicas } from './instances.ts'
import { Group } from './models.ts'
import { documented, GROUP, ORGANIZATION, type Route, returns, undocumented } from './route.ts'
import { groupView } from './views.ts'

/** Extensions of SQLite that the service knows. */
const EXTENSIONS = [
  'vector',
  'crypto',
  'fuzzy',
  'math',
  'stats',
  'text',
  'unicode',
  'uuid',
  'regexp',
  'vec',
] as const
const NewGroupBody = v.object({
  name: v.string(),
  location: v.string(),
  // accepted, without effect
  extensions: v.nullish(v.union([v.literal('all'), v.array(v.picklist(EXTENSIONS))])),
})
const GroupConfigurationBody = v.strictObject({ delete_protection: v.nullish(v.boolean()) })

const RenameBody = v.object({ name: v.string() })
const GROUP_RESPONSE = returns({ group: Group })
const CONFIGURATION = returns({ delete_protection: v.boolean() })

export const groupRoutes: readonly Route[] = [
  documented(`GET ${ORGANIZATION}/groups`, 'read', returns({ groups: v.array(Group) }), (call) => ({
    groups: call.groups().map((row) => groupView(call, row)),
  })),
  documented(`POST ${ORGANIZATION}/groups`, 'member', { ...GROUP_RESPONSE, body: NewGroupBody }, createGroup),
  documented(`GET ${GROUP}`, 'read', GROUP_RESPONSE, (call) => ({
    group: groupView(call, call.group()),
  })),
  documented(`DELETE ${GROUP}`, 'member', GROUP_RESPONSE, deleteGroup),
  documented(`GET ${GROUP}/configuration`, 'read', CONFIGURATION, (call) => ({
    delete_protection: call.group().deleteProtection,
  })),
  documented(
    `PATCH ${GROUP}/configuration`,
    'group:configure',
    { ...CONFIGURATION, body: GroupConfigurationBody },
    configureGroup,
  ),
  documented(`POST ${GROUP}/unarchive`, 'group:configure', GROUP_RESPONSE, unarchiveGroup),
  // the service upgrades the group's version; here, every group has the version of the server
  documented(`POST ${GROUP}/update`, 'group:configure', { response: null }, (call) => void call.group()),
  documented(`POST ${GROUP}/locations/:location`, 'group:configure', GROUP_RESPONSE, addLocation),
  documented(`DELETE ${GROUP}/locations/:location`, 'group:configure', GROUP_RESPONSE, removeLocation),
  undocumented(`GET ${GROUP}/locations/:location/wait`, 'read', { response: null }, (call) => {
    // a location has its replica as soon as it is in the list
    const { name, locations } = call.group()
    const location = call.param('location')
    if (!locations.includes(location))
      throw new ApiError(404, `group ${name} is not in location ${location.slice(0, 40)}`)
  }),
  undocumented(
    `POST ${GROUP}/rename`,
    'group:configure',
    { ...GROUP_RESPONSE, body: RenameBody },
    renameGroup,
  ),
]

function createGroup(call: Call) {
  const { name, location } = call.body(NewGroupBody)
  checkGroupName(name)
  checkLocation(location)
  checkGroupNameAvailable(call, call.organization.id, name)
  const group = newGroup(call.organization.id, name, location, newKeyPair())
  const data = { group: name }
  call.commit({ code: 'group-create', message: `created group ${name}`, data }, () =>
    call.plane.registry.groups.put(group),
  )
  return { group: groupView(call, group) }
}

/** Checks that an organization has no group with a name. @throws ApiError 409 */
export function checkGroupNameAvailable(call: Call, organization: string, name: string): void {
  if (call.plane.registry.findGroup(organization, name) !== undefined)
    throw new ApiError(409, 'group already exists')
}

/** Deletes a group with its databases and the tokens that are scoped to it. */
async function deleteGroup(call: Call) {
  const group = call.group()
  const { databases } = call.plane
  const rows = listGroupDatabases(call, group)
  const protectedRow = rows.find(({ configuration }) => configuration.deleteProtection)
  if (group.deleteProtection) throw new ApiError(400, `group ${group.name} is protected from deletion`)
  if (protectedRow !== undefined)
    throw new ApiError(400, `database ${protectedRow.name} is protected from deletion`)
  const data = { group: group.name, databases: rows.map(({ name }) => name) }
  await databases.recordRemoval(rows, () =>
    call.commit({ code: 'group-delete', message: `deleted group ${group.name}`, data }, () => {
      for (const row of rows) databases.markDeleting(row)
      revokeGroupTokens(call, group)
      call.plane.registry.groups.delete(group.id)
    }),
  )
  await databases.finishRemovals(rows)
  await databases.cleanUpGroup(group.id)
  return { group: groupView(call, group) }
}

/** Returns all databases of a group that are not being removed, also those that are being created. */
export function listGroupDatabases(call: Call, { id }: GroupRow): readonly DatabaseRow[] {
  return call.plane.registry.databases.rows.filter(({ group, state }) => group === id && state !== 'deleting')
}

/** Deletes the API tokens that are scoped to a group, within the caller's transaction. */
export function revokeGroupTokens(call: Call, { id }: GroupRow): void {
  const { apiTokens } = call.plane.registry
  for (const token of apiTokens.rows.filter(({ group }) => group === id)) apiTokens.delete(token.id)
}

function configureGroup(call: Call) {
  const group = call.group()
  const { delete_protection: requested } = call.body(GroupConfigurationBody)
  const deleteProtection = requested ?? group.deleteProtection
  const audit = {
    code: deleteProtection ? 'group-protect' : 'group-unprotect',
    message: `${deleteProtection ? 'protected' : 'unprotected'} group ${group.name}`,
    data: { group: group.name },
  }
  call.commit(deleteProtection === group.deleteProtection ? null : audit, () =>
    call.plane.registry.groups.put({ ...group, deleteProtection }),
  )
  return { delete_protection: deleteProtection }
}

function unarchiveGroup(call: Call) {
  const group = call.group()
  const data = { group: group.name }
  const audit = { code: 'group-unarchive', message: `unarchived group ${group.name}`, data }
  const unarchivedGroup = { ...group, isArchived: false }
  call.commit(group.isArchived ? audit : null, () => call.plane.registry.groups.put(unarchivedGroup))
  return { group: groupView(call, unarchivedGroup) }
}

async function addLocation(call: Call) {
  const group = call.group()
  const location = call.param('location')
  checkLocation(location)
  checkSupportsReplicas(call)
  if (group.locations.includes(location)) return { group: groupView(call, group) }
  const updatedGroup = changeLocations(call, group, [...group.locations, location])
  await startReplica(call, group.id, location, () => {
    const { groups } = call.plane.registry
    const current = groups.get(group.id) ?? group
    groups.put({ ...current, locations: current.locations.filter((code) => code !== location) })
  })
  return { group: groupView(call, updatedGroup) }
}

async function removeLocation(call: Call) {
  const group = call.group()
  const location = call.param('location')
  if (location === group.primary) throw new ApiError(400, 'the primary location cannot be removed')
  checkSupportsReplicas(call)
  // the service's own words
  if (!group.locations.includes(location)) throw new ApiError(400, 'Invalid location code')
  const remaining = group.locations.filter((code) => code !== location)
  const updatedGroup = changeLocations(call, group, remaining)
  await stopRemovedReplicas(call, group.id)
  return { group: groupView(call, updatedGroup) }
}

function changeLocations(call: Call, group: GroupRow, locations: readonly string[]): GroupRow {
  const updatedGroup = { ...group, locations }
  call.commit(null, () => call.plane.registry.groups.put(updatedGroup))
  return updatedGroup
}

function renameGroup(call: Call) {
  const group = call.group()
  const { name } = call.body(RenameBody)
  checkGroupName(name)
  if (name !== group.name) checkGroupNameAvailable(call, group.organization, name)
  const renamedGroup = { ...group, name }
  call.commit(null, () => call.plane.registry.groups.put(renamedGroup))
  return { group: groupView(call, renamedGroup) }
}
