import * as v from 'valibot'
import type { SnapshotRow } from '../registry/rows.ts'
import type { Call } from './call.ts'
import { Integer, Time } from './json-types.ts'
import { DATABASE, type Route, returns, undocumented } from './route.ts'
import { formatTime, getHostname } from './views.ts'

const Snapshot = v.object({ name: v.string(), bytes: Integer, created_at: Time })
const NewSnapshotBody = v.object({ name: v.nullish(v.string()) })
const RestoredDatabase = v.object({ DbId: v.string(), Hostname: v.string(), Name: v.string() })

/** Routes that the service does not have. */
export const snapshotRoutes: readonly Route[] = [
  undocumented(`GET ${DATABASE}/snapshots`, 'read', returns({ snapshots: v.array(Snapshot) }), (call) => ({
    snapshots: call.plane.snapshots.list(call.database().id).map(snapshotView),
  })),
  undocumented(
    `POST ${DATABASE}/snapshots`,
    'db:create',
    returns({ snapshot: Snapshot }, { body: NewSnapshotBody }),
    async (call) => {
      const { name } = call.body(NewSnapshotBody)
      return { snapshot: snapshotView(await call.plane.snapshots.create(call.database(), name ?? undefined)) }
    },
  ),
  undocumented(
    `POST ${DATABASE}/snapshots/:snapshotName/restore`,
    // the current content is deleted
    'db:delete',
    returns({ database: RestoredDatabase }),
    async (call) => {
      const row = await call.plane.snapshots.restore(call.database(), call.param('snapshotName'))
      return { database: { DbId: row.id, Hostname: getHostname(call, row), Name: row.name } }
    },
  ),
  undocumented(
    `DELETE ${DATABASE}/snapshots/:snapshotName`,
    'db:delete',
    returns({ snapshot: v.string() }),
    async (call) => ({ snapshot: await deleteSnapshot(call) }),
  ),
]

async function deleteSnapshot(call: Call): Promise<string> {
  const name = call.param('snapshotName')
  await call.plane.snapshots.remove(call.database(), name)
  return name
}

const snapshotView = ({ name, bytes, createdAt }: SnapshotRow) => ({
  name,
  bytes,
  created_at: formatTime(createdAt),
})
