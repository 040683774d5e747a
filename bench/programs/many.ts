// Measures many databases on one server: creation, start, memory of the server processes, the speed of databases that are not
// open and of one that is, and a migration of a shared schema.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { Pool } from 'undici'
import { type ManyDatabasesFigures, readResults, recordResults } from '../lib/results.ts'
import { median } from '../lib/statistics.ts'

const { values } = parseArgs({
  options: {
    databases: { type: 'string', default: '100,1000' },
    backends: { type: 'string', default: 'embedded,sqld' },
    groups: { type: 'string', default: '1' },
    write: { type: 'boolean', default: false },
  },
})
const IN_FLIGHT = 64
/** How often each database is queried. */
const CYCLES = 2
const SAMPLE_MS = 100
/** Longer than the server keeps an idle database open (5 s), and V8 the memory of a thread that has ended (8 s). */
const IDLE_MS = 20_000
/** Number of databases on which the first and the second query are timed. */
const COLD_DATABASES = 100
/** Number of databases that share a schema. */
const CHILDREN = 200

interface TenantServer {
  readonly url: string
  readonly version: string
  readonly startMs: number
  readonly pid: number
  call(message: object): Promise<number>
  stop(): Promise<void>
}

async function start(backend: string, directory: string): Promise<TenantServer> {
  const program = new URL('../servers/tenants.mjs', import.meta.url)
  const child = fork(program, [backend, directory], { execArgv: [] })
  const [details] = (await once(child, 'message')) as [{ url: string; version: string; startMs: number }]
  return {
    ...details,
    pid: child.pid as number,
    async call(message) {
      child.send(message)
      const [result] = (await once(child, 'message')) as [number]
      return result
    },
    async stop() {
      child.send({})
      await once(child, 'exit')
    },
  }
}

const readStatus = (pid: number, field: string): string =>
  new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? ''

/** Returns the ids of a process and its descendants. */
function listProcesses(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ').filter(Boolean)
  return [pid, ...children.flatMap((child) => listProcesses(Number(child)))]
}

/** Returns the memory of the server's processes in megabytes. */
function readMegabytes(pid: number): number {
  const kilobytes = listProcesses(pid).map((processId) => Number(readStatus(processId, 'VmRSS')))
  return Math.round(kilobytes.reduce((sum, value) => sum + value, 0) / 1_024)
}

/** Returns the number of descriptors that the server's processes have open. */
function countDescriptors(pid: number): number {
  return listProcesses(pid).flatMap((processId) => readdirSync(`/proc/${processId}/fd`)).length
}

async function measure(backend: string, count: number): Promise<ManyDatabasesFigures> {
  const directory = mkdtempSync(join(tmpdir(), 'baton-tenants-'))
  const names = Array.from({ length: count }, (_, index) => `d${index}`)
  const groups = Array.from({ length: Number(values.groups) }, (_, index) => `group${index}`)
  const inGroups = groups.length === 1 ? '' : ` in ${groups.length} groups`
  const figures: Record<string, string> = {}
  const report = (name: string, figure: string): void => {
    figures[name] = figure
    console.log(`${backend}, ${count} databases${inGroups}: ${name}: ${figure}`)
  }
  let server = await start(backend, directory)
  try {
    const createdMs = await server.call({ create: names, ...(groups.length > 1 && { groups }) })
    report('created per second', String(Math.round(count / (createdMs / 1_000))))
    await server.stop()
    server = await start(backend, directory)
    report('start', `${(server.startMs / 1_000).toFixed(1)} s, ${readMegabytes(server.pid)} MB`)

    const pool = new Pool(server.url, { connections: IN_FLIGHT + 1 })
    const run = (name: string, sql: string): Promise<number> => query(pool, name, sql)
    const runAll = async (sql: string): Promise<void> => {
      const queue = names.values()
      const worker = async (): Promise<void> => {
        for (const name of queue) await run(name, sql)
      }
      await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
    }
    await runAll('CREATE TABLE t (a)')
    let peak = 0
    const sampler = setInterval(() => (peak = Math.max(peak, readMegabytes(server.pid))), SAMPLE_MS)
    const idle: number[] = []
    const rates: Record<string, number[]> = { 'INSERT INTO t VALUES (1)': [], 'SELECT count(*) FROM t': [] }
    let descriptors = 0
    for (let cycle = 0; cycle < CYCLES; cycle += 1) {
      for (const [sql, perSecond] of Object.entries(rates)) {
        const startedAt = performance.now()
        await runAll(sql)
        perSecond.push(Math.round(count / ((performance.now() - startedAt) / 1_000)))
        descriptors = Math.max(descriptors, countDescriptors(server.pid))
      }
      await pause(IDLE_MS)
      idle.push(readMegabytes(server.pid))
    }
    clearInterval(sampler)
    const [inserts = [], selects = []] = Object.values(rates)
    report('first INSERT in each, per second', formatRange(inserts))
    report('SELECT in each, per second', formatRange(selects))
    report('peak memory', `${peak} MB`)
    report('after twenty seconds without requests', `${formatRange(idle)} MB`)
    report('open files', descriptors.toLocaleString('en'))

    const timesByPass: number[][] = [[], []]
    for (const name of names.slice(0, COLD_DATABASES))
      for (const times of timesByPass) times.push(await run(name, 'SELECT count(*) FROM t'))
    const [first, second] = timesByPass.map((times) => median(times).toFixed(1))
    report('first and second SELECT on one database', `${first} and ${second} ms`)
    await pool.close()

    const children = names.slice(0, CHILDREN).map((name) => `child-${name}`)
    await server.call({ create: ['parent'], options: { isSchema: true } })
    await server.call({ create: children, options: { schema: 'parent' } })
    await using parent = createClient({ url: `${server.url}/parent` })
    const startedAt = performance.now()
    await parent.execute('CREATE TABLE shared (a)')
    const migratedMs = performance.now() - startedAt
    report(`migration of a shared schema, ${CHILDREN} databases`, `${(migratedMs / 1_000).toFixed(1)} s`)
    return { server: `${backend}, ${count.toLocaleString('en')}${inGroups}`, figures }
  } finally {
    await server.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Runs a statement on a database. @returns the time that it took, in ms */
async function query(pool: Pool, name: string, sql: string): Promise<number> {
  const startedAt = performance.now()
  const requests = [{ type: 'execute', stmt: { sql } }, { type: 'close' }]
  const { statusCode, body } = await pool.request({
    path: `/${name}/v3/pipeline`,
    method: 'POST',
    body: JSON.stringify({ requests }),
  })
  const text = await body.text()
  if (statusCode !== 200 || text.includes('"error"')) throw new Error(`${name}: ${statusCode} ${text}`)
  return performance.now() - startedAt
}

function formatRange(figures: readonly number[]): string {
  const [least, most] = [Math.min(...figures), Math.max(...figures)].map((figure) =>
    figure.toLocaleString('en'),
  )
  return least === most ? `${least}` : `${least} to ${most}`
}

const measured: ManyDatabasesFigures[] = []
for (const backend of values.backends.split(','))
  for (const count of values.databases.split(',').map(Number)) measured.push(await measure(backend, count))
if (values.write) {
  const others = readResults().many.filter(({ server }) => !measured.some((row) => row.server === server))
  recordResults({ many: [...measured, ...others] })
}
