import { createHash } from 'node:crypto'
import { ReplicaStartError } from '@batonsql/server-common/backend'
import * as v from 'valibot'
import { ApiError, notSupported } from '../api-error.ts'
import type { DatabaseRow } from '../registry/rows.ts'
import { getReplicaLocations } from '../replica-locations.ts'
import { checkLocation } from '../rules/locations.ts'
import { shorten } from '../rules/names.ts'
import type { Call } from './call.ts'
import { Instance } from './models.ts'
import { DATABASE, documented, type Route, returns, undocumented } from './route.ts'
import { databaseView, getHostname } from './views.ts'

const NewInstanceBody = v.object({ location: v.string() })
const INSTANCE_RESPONSE = returns({ instance: Instance })

export const instanceRoutes: readonly Route[] = [
  documented(`GET ${DATABASE}/instances`, 'read', returns({ instances: v.array(Instance) }), (call) => ({
    instances: listInstances(call, call.database()),
  })),
  undocumented(
    `POST ${DATABASE}/instances`,
    'db:configure',
    { ...INSTANCE_RESPONSE, body: NewInstanceBody },
    addInstance,
  ),
  documented(`GET ${DATABASE}/instances/:instanceName`, 'read', INSTANCE_RESPONSE, (call) => ({
    instance: findInstance(call),
  })),
  undocumented(
    `DELETE ${DATABASE}/instances/:instanceName`,
    'db:configure',
    INSTANCE_RESPONSE,
    removeInstance,
  ),
  undocumented(
    `GET ${DATABASE}/instances/:instanceName/wait`,
    'read',
    { response: null },
    (call) => void findInstance(call),
  ),
]

/** Checks that the back end supports replicas. @throws ApiError */
export function checkSupportsReplicas({ plane }: Call): void {
  if (plane.backend.setReplicas === undefined)
    throw notSupported('replicas need libsql-server: start the server with --backend sqld', 501)
}

async function addInstance(call: Call) {
  const row = call.database()
  const { location } = call.body(NewInstanceBody)
  checkLocation(location)
  checkSupportsReplicas(call)
  const { registry } = call.plane
  const isPrimary = location === registry.groups.get(row.group)?.primary
  if (isPrimary || getReplicaLocations(registry, row).includes(location))
    throw new ApiError(409, `database ${row.name} already has an instance in ${location}`)
  const updatedRow = { ...row, replicas: [...(row.replicas ?? []), location] }
  call.commit(null, () => registry.databases.put(updatedRow))
  await startReplica(call, row.group, location, () => {
    const { replicas = [], ...current } = registry.databases.get(row.id) ?? row
    registry.databases.put({ ...current, replicas: replicas.filter((code) => code !== location) })
  })
  return { instance: replicaView(call, updatedRow, location) }
}

async function removeInstance(call: Call) {
  const row = call.database()
  if (call.param('instanceName') === primaryView(call, row).name)
    throw new ApiError(400, 'the primary instance cannot be removed')
  checkSupportsReplicas(call)
  const instance = findInstance(call)
  const { registry } = call.plane
  if (!row.replicas?.includes(instance.name))
    throw new ApiError(400, `${instance.name} is a location of the group; remove it from the group`)
  const replicas = row.replicas.filter((location) => location !== instance.name)
  call.commit(null, () => registry.databases.put({ ...row, replicas }))
  await stopRemovedReplicas(call, row.group)
  return { instance }
}

/**
 * Starts the replica of a group in a location that was just added.
 * @param undo removes the location from the registry, if the replica does not start
 * @throws ApiError if it does not start
 */
export async function startReplica(
  call: Call,
  group: string,
  location: string,
  undo: () => void,
): Promise<void> {
  const { backend } = call.plane
  try {
    await backend.setReplicas?.(group)
  } catch (error) {
    if (!(error instanceof ReplicaStartError)) throw error
    // a replica in another location failed to start; the start is retried when the replica is used
    if (error.location !== location) return
    call.commit(null, undo)
    await stopRemovedReplicas(call, group)
    throw new ApiError(502, error.message)
  }
}

/** Stops the replicas of a group in locations that were removed. A replica that does not start is retried when it is used. */
export async function stopRemovedReplicas({ plane: { backend } }: Call, group: string): Promise<void> {
  await backend.setReplicas?.(group).catch((error: unknown) => {
    if (!(error instanceof ReplicaStartError)) throw error
  })
}

function primaryView(call: Call, row: DatabaseRow) {
  const region = databaseView(call, row).primaryRegion
  return { uuid: row.id, name: region, type: 'primary', region, hostname: getHostname(call, row) }
}

function listInstances(call: Call, row: DatabaseRow) {
  const supportsReplicas = call.plane.backend.setReplicas !== undefined
  const locations = supportsReplicas ? getReplicaLocations(call.plane.registry, row) : []
  return [primaryView(call, row), ...locations.map((location) => replicaView(call, row, location))]
}

function replicaView(call: Call, row: DatabaseRow, location: string) {
  return {
    uuid: buildInstanceId(row, location),
    name: location,
    type: 'replica',
    region: location,
    hostname: getHostname(call, row, location),
  }
}

/** Returns an id that is stable for a database and a location. */
function buildInstanceId({ id }: DatabaseRow, location: string): string {
  const hex = createHash('sha256').update(`${id}/${location}`).digest('hex')
  // version 8 (custom) and the variant of RFC 9562
  const text = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}`
  return `${text}-${hex.slice(20, 32)}`
}

function findInstance(call: Call) {
  const name = call.param('instanceName')
  const instance = listInstances(call, call.database()).find((candidate) => candidate.name === name)
  if (instance === undefined) throw new ApiError(404, `could not find instance with name ${shorten(name)}`)
  return instance
}
