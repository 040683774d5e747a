// Creates a database for each tenant, migrates it with Drizzle and with Kysely, uses it, shows its usage, and deletes it.
import { parseArgs } from 'node:util'
import { startLocalServer } from '@batonsql/local-server'
import { createPlatformClient } from '@batonsql/platform'
import { SingleBar } from 'cli-progress'
import { type TenantReport, Tenants } from './tenant.ts'

/** The number of tenants that are processed at a time. */
const CONCURRENCY = 4
const VISITS_PER_TENANT = 50

const { values: options } = parseArgs({
  options: { backend: { type: 'string', default: 'embedded' }, tenants: { type: 'string', default: '20' } },
})
const { backend } = options
if (backend !== 'embedded' && backend !== 'sqld')
  throw new TypeError(`--backend must be embedded or sqld, not ${backend}`)
const names = Array.from({ length: Number(options.tenants) }, (_, index) => `tenant-${index + 1}`)

const server = await startLocalServer({ backend, platform: {} })
const { platform } = server
if (platform === null) throw new Error('the server has no platform API')
console.log(`Platform API (${server.version}) on ${platform.url}`)
const { url, token, organization } = platform
const client = createPlatformClient({ url, token, organization })
await client.groups.ensure({ name: 'tenants', location: 'local' })
const tenants = new Tenants(client, 'tenants')

await forAll('created and migrated', (name) => tenants.create(name))
await forAll('used', (name) => tenants.use(name, VISITS_PER_TENANT))
const reports: TenantReport[] = []
await forAll('measured', async (name) => void reports.push(await tenants.report(name)))
const sum = (field: 'notes' | 'visits' | 'rowsRead' | 'rowsWritten' | 'storageBytes'): number =>
  reports.reduce((total, report) => total + report[field], 0)
console.log(
  `${sum('notes')} notes, ${sum('visits')} visits, ${sum('rowsRead')} rows read, ${sum('rowsWritten')} rows written, ${sum('storageBytes')} bytes`,
)
await forAll('deleted', (name) => tenants.remove(name))
const remaining = await client.databases.list({ group: 'tenants' }).toArray({ limit: names.length })
console.log(`${remaining.length} databases left`)
await server.close()

/** Runs a task for every tenant, and shows its progress. */
async function forAll(label: string, work: (name: string) => Promise<void>): Promise<void> {
  const format = `  {bar} {value} of {total} ${label} in {duration} s`
  const bar = new SingleBar({ format, noTTYOutput: true, notTTYSchedule: 1_000, stream: process.stdout })
  bar.start(names.length, 0)
  const queue = [...names].reverse()
  const worker = async (): Promise<void> => {
    for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
      await work(name)
      bar.increment()
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  bar.stop()
}
