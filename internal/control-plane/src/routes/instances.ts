import * as v from 'valibot'
import { Refusal } from '../refusal.ts'
import type { DatabaseRow } from '../registry/rows.ts'
import { scoped } from './access.ts'
import type { Call } from './call.ts'
import { Instance } from './models.ts'
import { DATABASE, documented, type Route, undocumented } from './route.ts'
import { databaseView, hostnameOf } from './views.ts'

export const instanceRoutes: readonly Route[] = [
  documented(
    'GET',
    `${DATABASE}/instances`,
    scoped('read'),
    { response: v.object({ instances: v.array(Instance) }) },
    (call) => ({
      instances: [instanceView(call, call.database())],
    }),
  ),
  documented(
    'GET',
    `${DATABASE}/instances/:instanceName`,
    scoped('read'),
    { response: v.object({ instance: Instance }) },
    (call) => ({
      instance: findInstance(call),
    }),
  ),
  undocumented(
    'GET',
    `${DATABASE}/instances/:instanceName/wait`,
    scoped('read'),
    { response: null },
    (call) => void findInstance(call),
  ),
]

/** Every database has one instance, the primary. */
function instanceView(call: Call, row: DatabaseRow) {
  const region = databaseView(call, row).primaryRegion
  return { uuid: row.id, name: region, type: 'primary', region, hostname: hostnameOf(call, row) }
}

function findInstance(call: Call) {
  const instance = instanceView(call, call.database())
  const name = call.param('instanceName')
  if (instance.name !== name) throw new Refusal(404, `could not find instance with name ${name.slice(0, 80)}`)
  return instance
}
