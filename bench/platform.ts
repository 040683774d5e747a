// A thousand databases through the platform API: made, listed, each asked once, deleted, and what that costs:
// npm run bench:platform [-- --backend sqld] [-- --databases N]
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { createPlatformClient, databaseUrl } from '@batonsql/core/platform'
import { startLocalServer } from '@batonsql/local-server'

const { values } = parseArgs({
  options: {
    databases: { type: 'string', default: '1000' },
    backend: { type: 'string', default: 'embedded' },
  },
})
const backend = values.backend === 'sqld' ? 'sqld' : 'embedded'
const names = Array.from({ length: Number(values.databases) }, (_, at) => `tenant-${at}`)
const CONCURRENCY = 8
const MEGABYTE = 1_024 ** 2

const dataDirectory = await mkdtemp(join(tmpdir(), 'baton-bench-'))
const start = () => startLocalServer({ backend, dataDirectory, platform: {} })
let server = await start()
const connect = () => {
  if (server.platform === null) throw new Error('the server has no platform API')
  const { url: baseUrl, token, organization } = server.platform
  return createPlatformClient({ baseUrl, token, organization })
}
let platform = connect()
console.log(
  `${server.version}, ${names.length} databases, ${CONCURRENCY} at a time; memory is that of the server's process`,
)

await timed('create', async (name) => void (await platform.databases.create({ name, group: 'default' })))
await timed('list, 100 a page', async (_, at) => {
  if (at === 0) await platform.databases.list().toArray({ limit: names.length + 1 })
})
const token = String(await platform.groups.createToken('default'))
await timed('first query', query)
await timed('second query', query)
await timed(
  'delete',
  async (name) => void (await platform.databases.delete(name)),
  names.slice(0, names.length / 2),
)
await server.close()
const restarted = performance.now()
server = await start()
platform = connect()
console.log(
  `start with ${server.databaseNames.length} databases: ${Math.round(performance.now() - restarted)} ms`,
)
await server.close()
await rm(dataDirectory, { recursive: true, force: true })

async function query(name: string): Promise<void> {
  const { hostname } = await platform.databases.get(name)
  const client = createClient({ url: databaseUrl(hostname), authToken: token })
  await client.execute('select 1')
  await client.close()
}

async function timed(
  what: string,
  work: (name: string, at: number) => Promise<void>,
  of: readonly string[] = names,
): Promise<void> {
  const began = performance.now()
  let next = 0
  const worker = async (): Promise<void> => {
    for (let at = next++; at < of.length; at = next++) await work(of[at] as string, at)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  const seconds = (performance.now() - began) / 1_000
  const rate = what.startsWith('list') ? '' : `${Math.round(of.length / seconds)}/s`
  const memory = Math.round(process.memoryUsage().rss / MEGABYTE)
  console.log(`${what.padEnd(18)} ${seconds.toFixed(2).padStart(7)} s ${rate.padStart(7)} ${memory} MB`)
}
