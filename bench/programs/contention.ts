// Measures many writers on one database, with concurrent reports: on a plain libsql-server, on one behind the gateway, and on the
// embedded server, with two clients. A server counts as unresponsive if it does not respond to a write within 15 s after a load.
// Takes about five minutes; use `--seconds 600 --load "12 writers, two reports"` for a long run.
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { CLIENTS } from '../contention/clients.ts'
import { LOADS, type Load, measure, TABLE } from '../contention/load.ts'
import { SERVERS } from '../contention/servers.ts'
import { type ContentionFigures, recordResults } from '../lib/results.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string' },
    seed: { type: 'string', default: '1' },
    load: { type: 'string', default: '' },
    server: { type: 'string', default: '' },
    client: { type: 'string', default: '' },
    write: { type: 'boolean', default: false },
  },
})
const SECONDS = 5
const WAL_SAMPLE_MS = 200

const getSeconds = ({ durationFactor }: Load): number =>
  values.seconds === undefined ? SECONDS * durationFactor : Number(values.seconds)

async function run(load: Load, server: string, client: string): Promise<ContentionFigures> {
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
    const { committed, seconds, failed, longestStallMs, isResponsive } = await measure(
      load,
      program,
      getSeconds(load),
      Number(values.seed),
    )
    return {
      load: load.name,
      seconds: Math.round(seconds),
      server,
      client,
      commitsPerSecond: Math.round(committed / seconds),
      failed,
      longestStallMs: Math.round(longestStallMs),
      largestWalBytes,
      isResponsive,
    }
  } finally {
    finished.abort()
    await walSampler
    await benchServer.close()
    // rejects if requests were aborted when the server stopped
    await program.close().catch(() => {})
  }
}

const filterByText = (names: readonly string[], part: string): string[] =>
  names.filter((name) => name.includes(part))
const rows: ContentionFigures[] = []
for (const load of LOADS.filter(({ name }) => name.includes(values.load)))
  for (const server of filterByText(Object.keys(SERVERS), values.server))
    for (const client of filterByText(Object.keys(CLIENTS), values.client)) {
      const row = await run(load, server, client)
      console.log(JSON.stringify(row))
      rows.push(row)
    }
if (rows.length === 0) throw new Error('no load, server or client has a name with this text')
if (values.write) recordResults({ contention: rows })
process.exit()
