// A thousand databases on one embedded server: measures the memory of its process at the start, at the peak and when idle, and
// how fast it responds if every request is for a different database. Run: npm run bench:many [-- --databases N] [-- --in-flight
// 8,64]
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startLocalServer } from '@batonsql/local-server'
import { Pool } from 'undici'

const { values } = parseArgs({
  options: {
    databases: { type: 'string', default: '1000' },
    'in-flight': { type: 'string', default: '8,64' },
  },
})
const names = Array.from({ length: Number(values.databases) }, (_, at) => `d${at}`)
const SAMPLE_MS = 20
/** Longer than the server keeps an idle database open. */
const IDLE_MS = 8_000
const MEGABYTE = 1_024 ** 2

const server = await startLocalServer()
const pool = new Pool(server.url, { connections: 64, keepAliveTimeout: 1_000 })

let peak = 0
const rss = (): number => Math.round(process.memoryUsage.rss() / MEGABYTE)
const sampler = setInterval(() => {
  peak = Math.max(peak, rss())
}, SAMPLE_MS)

async function run(name: string, sql: string): Promise<void> {
  const requests = [{ type: 'execute', stmt: { sql } }, { type: 'close' }]
  const { statusCode, body } = await pool.request({
    path: `/${name}/v3/pipeline`,
    method: 'POST',
    body: JSON.stringify({ requests }),
  })
  const text = await body.text()
  if (statusCode !== 200 || text.includes('"error"')) throw new Error(`${name}: ${statusCode} ${text}`)
}

/** Queries every database once, with this many requests in flight. */
async function cycle(inFlight: number, sql: string): Promise<number> {
  const queue = names.values()
  const started = performance.now()
  const lane = async (): Promise<void> => {
    for (const name of queue) await run(name, sql)
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  return Math.round(names.length / ((performance.now() - started) / 1_000))
}

async function idle(): Promise<number> {
  await pause(IDLE_MS)
  globalThis.gc?.()
  return rss()
}

await run('default', 'SELECT 1')
console.log(
  `${server.version}, ${names.length} databases; megabytes of the process, the client in it included`,
)
console.log(`one database open: ${rss()}`)
for (const name of names) await server.createDatabase(name)
console.log(`created: ${rss()}`)
for (const inFlight of values['in-flight'].split(',').map(Number)) {
  peak = 0
  const first = await cycle(inFlight, 'CREATE TABLE IF NOT EXISTS t (a)')
  const second = await cycle(inFlight, 'INSERT INTO t VALUES (1)')
  const third = await cycle(inFlight, 'SELECT count(*) FROM t')
  const rates = `${first} CREATE, ${second} INSERT, ${third} SELECT a second`
  console.log(`${inFlight} in flight: ${rates}; peak ${peak}, idle ${await idle()}`)
}
clearInterval(sampler)
await pool.close()
await server.close()
