// Measures many databases on one server: creation, start, memory of the server processes, the speed of databases that are not
// open and of one that is, and a migration of a shared schema. Run:
// npm run bench:many [-- --databases 100,1000 --backends embedded,sqld --groups 1 --in-flight 64 --cycles 2]
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { Pool } from 'undici'

const { values } = parseArgs({
  options: {
    databases: { type: 'string', default: '100,1000' },
    backends: { type: 'string', default: 'embedded,sqld' },
    groups: { type: 'string', default: '1' },
    'in-flight': { type: 'string', default: '64' },
    cycles: { type: 'string', default: '2' },
  },
})
const inFlight = Number(values['in-flight'])
const SAMPLE_MS = 100
/** Longer than the server keeps an idle database open (5 s), and V8 the memory of a thread that has ended (8 s). */
const IDLE_MS = 20_000
/** Number of queries to one database from which the 99th percentile is calculated. */
const WARM_QUERIES = 2_000
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
  const program = new URL('servers/tenants.mjs', import.meta.url)
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

function percentile(sorted: readonly number[], fraction: number): string {
  return (sorted[Math.floor(sorted.length * fraction)] ?? Number.NaN).toFixed(1)
}

async function measure(backend: string, count: number): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'baton-tenants-'))
  const names = Array.from({ length: count }, (_, index) => `d${index}`)
  let server = await start(backend, directory)
  const groups = Array.from({ length: Number(values.groups) }, (_, index) => `group${index}`)
  const groupText = groups.length === 1 ? '' : ` in ${groups.length} groups`
  const report = (line: string): void => console.log(`${backend}, ${count} databases${groupText}: ${line}`)
  try {
    const createdMs = await server.call({ create: names, ...(groups.length > 1 && { groups }) })
    report(`${server.version}; ${Math.round(count / (createdMs / 1_000))} created per second`)
    await server.stop()
    server = await start(backend, directory)
    const megabytes = readMegabytes(server.pid)
    const files = readdirSync(directory, { recursive: true }).length
    report(`restarted in ${Math.round(server.startMs)} ms with ${megabytes} MB; ${files} files and folders`)

    const pool = new Pool(server.url, { connections: inFlight + 1 })
    const run = async (name: string, sql: string): Promise<number> => {
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
    const runAll = async (sql: string): Promise<void> => {
      const queue = names.values()
      const worker = async (): Promise<void> => {
        for (const name of queue) await run(name, sql)
      }
      await Promise.all(Array.from({ length: inFlight }, worker))
    }
    /** Runs a task and returns its duration and the peak usage. */
    const observe = async (work: () => Promise<void>): Promise<{ seconds: number; peak: string }> => {
      let peak = 0
      const sampler = setInterval(() => (peak = Math.max(peak, readMegabytes(server.pid))), SAMPLE_MS)
      const startedAt = performance.now()
      await work()
      clearInterval(sampler)
      const seconds = (performance.now() - startedAt) / 1_000
      return { seconds, peak: `peak ${peak} MB, ${countDescriptors(server.pid)} descriptors` }
    }

    await runAll('CREATE TABLE t (a)')
    for (let cycle = 1; cycle <= Number(values.cycles); cycle += 1) {
      for (const sql of ['INSERT INTO t VALUES (1)', 'SELECT count(*) FROM t']) {
        const { seconds, peak } = await observe(() => runAll(sql))
        const verb = sql.slice(0, 6)
        report(
          `cycle ${cycle}: ${Math.round(count / seconds)} ${verb} per second, each on a different database; ${peak}`,
        )
      }
      await pause(IDLE_MS)
      report(`cycle ${cycle}: ${readMegabytes(server.pid)} MB after twenty seconds without requests`)
    }

    const timesByPass: number[][] = [[], []]
    for (const name of names.slice(0, COLD_DATABASES))
      for (const times of timesByPass) times.push(await run(name, 'SELECT count(*) FROM t'))
    const [first, second] = timesByPass.map((times) =>
      percentile(
        times.sort((a, b) => a - b),
        0.5,
      ),
    )
    report(`first SELECT on a database ${first} ms, second ${second} ms (median)`)

    const measureWarmQueries = async (): Promise<string> => {
      const times: number[] = []
      for (let index = 0; index < WARM_QUERIES; index += 1) times.push(await run('default', 'SELECT 1'))
      times.sort((a, b) => a - b)
      return `${percentile(times, 0.5)} ms, 99th percentile ${percentile(times, 0.99)} ms`
    }
    const baseline = await measureWarmQueries()
    const finished = new AbortController()
    const otherClient = (async () => {
      for (let index = 0; !finished.signal.aborted; index += 1)
        await run(names[index % count] as string, 'SELECT count(*) FROM t')
    })()
    report(
      `one open database alone: ${baseline}; with a client that queries the others: ${await measureWarmQueries()}`,
    )
    finished.abort()
    await otherClient

    const children = names.slice(0, CHILDREN).map((name) => `child-${name}`)
    await server.call({ create: ['parent'], options: { isSchema: true } })
    await server.call({ create: children, options: { schema: 'parent' } })
    await using parent = createClient({ url: `${server.url}/parent` })
    const migration = performance.now()
    await parent.execute('CREATE TABLE shared (a)')
    const migratedMs = performance.now() - migration
    report(`a migration of ${children.length} databases with a shared schema: ${Math.round(migratedMs)} ms`)
    await pool.close()
  } finally {
    await server.stop()
    rmSync(directory, { recursive: true, force: true })
  }
}

for (const backend of values.backends.split(','))
  for (const count of values.databases.split(',').map(Number)) await measure(backend, count)
