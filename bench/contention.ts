// Measures many writers on one database, with concurrent reports: on a plain libsql-server, on one behind the gateway, and on the
// embedded server, with each client. A server counts as unresponsive if it does not respond to a write within 15 s after a load.
// Takes about eight minutes; use `--seconds 600 --only "12 writers, two reports"` for a long run. `--write-docs` writes the table
// to docs/performance/hosting.md.
// Run: npm run bench:contention [-- --seconds N --only LOAD --server NAME --client NAME --write-docs]
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { CLIENTS } from './contention/clients.ts'
import { LOADS, type Load, measure, type Result, TABLE } from './contention/load.ts'
import { SERVERS } from './contention/servers.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    server: { type: 'string', default: '' },
    client: { type: 'string', default: '' },
    'write-docs': { type: 'boolean', default: false },
  },
})
const SECONDS = 5
const PAGE = new URL('../docs/performance/hosting.md', import.meta.url)
const MARKERS = ['<!-- bench:contention -->', '<!-- end of bench:contention -->'] as const
const WAL_SAMPLE_MS = 200

interface Row extends Result {
  readonly load: string
  readonly server: string
  readonly client: string
  readonly largestWalBytes: number
}

const getSeconds = ({ durationFactor }: Load): number =>
  values.seconds === undefined ? SECONDS * durationFactor : Number(values.seconds)

async function run(load: Load, server: string, client: string): Promise<Row> {
  const benchServer = await (SERVERS[server] as NonNullable<(typeof SERVERS)[string]>)()
  const program = (CLIENTS[client] as NonNullable<(typeof CLIENTS)[string]>)(benchServer.url)
  const finished = new AbortController()
  let largestWalBytes = 0
  const walSampler = (async () => {
    while (!finished.signal.aborted) {
      largestWalBytes = Math.max(largestWalBytes, await benchServer.walBytes())
      await pause(WAL_SAMPLE_MS)
    }
  })()
  try {
    await program.write({ statements: [TABLE], thinkMs: 0, abortAfterMs: null })
    const result = await measure(load, program, getSeconds(load), Number(values.seed))
    return { ...result, load: load.name, server, client, largestWalBytes }
  } finally {
    finished.abort()
    await walSampler
    await benchServer.close()
    // rejects if requests were aborted when the server stopped
    await program.close().catch(() => {})
  }
}

function table(rows: readonly Row[]): string {
  const lines = rows.map(({ load, server, client, committed, failed, seconds, ...row }) => {
    const stall = `${(row.longestStallMs / 1_000).toFixed(1)} s`
    const wal = `${(row.largestWalBytes / 1e6).toFixed(0)} MB`
    const rate = (committed / seconds).toFixed(0)
    const responds = row.isResponsive ? 'yes' : '**no**'
    return `| ${load} | ${Math.round(seconds)} | ${server} | ${client} | ${rate} | ${failed} | ${stall} | ${wal} | ${responds} |`
  })
  return [
    `On ${cpus().length} cores shared by clients and servers, with the data on disk.`,
    '',
    '| load | seconds | server | client | commits/s | failed | longest time without a commit | largest WAL | responds to writes afterwards |',
    '|---|---|---|---|---|---|---|---|---|',
    ...lines,
  ].join('\n')
}

const filterByText = (names: readonly string[], part: string): string[] =>
  names.filter((name) => name.includes(part))
const rows: Row[] = []
for (const name of filterByText(
  LOADS.map((load) => load.name),
  values.only,
)) {
  const load = LOADS.find((candidate) => candidate.name === name) as Load
  for (const server of filterByText(Object.keys(SERVERS), values.server))
    for (const client of filterByText(Object.keys(CLIENTS), values.client)) {
      rows.push(await run(load, server, client))
      console.error(table(rows.slice(-1)).split('\n').at(-1))
    }
}
if (rows.length === 0) throw new Error('no load, server or client has a name with this text')
const text = table(rows)
console.log(text)
if (values['write-docs']) {
  const page = readFileSync(PAGE, 'utf8')
  const [start, end] = [page.indexOf(MARKERS[0]) + MARKERS[0].length, page.indexOf(MARKERS[1])]
  writeFileSync(PAGE, `${page.slice(0, start)}\n${text}\n${page.slice(end)}`)
}
process.exit()
