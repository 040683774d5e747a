// Measures a dump of a large database, read as statements and as bytes: its rate, and the peak memory of the client and server
// processes. Run: npm run bench:dump [-- --megabytes 200 --backend embedded]
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createClient, dump } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'

const { values } = parseArgs({
  options: {
    megabytes: { type: 'string', default: '200' },
    backend: { type: 'string', default: 'embedded' },
    serve: { type: 'boolean', default: false },
  },
})
const ROW_BYTES = 1_000
const MB = 1_000_000

/** Runs the server in its own process, which reports its peak memory. */
async function serve(): Promise<void> {
  const server = await startLocalServer({ backend: values.backend as 'embedded' })
  const { url } = await server.createDatabase('large')
  process.on('message', () => process.send?.(process.resourceUsage().maxRSS / 1_000))
  process.on('disconnect', () => void server.close())
  process.send?.(url)
}

async function measure(): Promise<void> {
  const server = fork(fileURLToPath(import.meta.url), [...process.argv.slice(2), '--serve'])
  const [url] = (await once(server, 'message')) as [string]
  const serverMemory = async (): Promise<number> => {
    server.send('memory')
    return ((await once(server, 'message')) as [number])[0]
  }
  const db = createClient({ url, requestTimeoutMs: 120_000 })
  const rows = (Number(values.megabytes) * MB) / ROW_BYTES
  await db.execute('create table large (n integer primary key, t text)')
  for (let from = 0; from < rows; from += 10_000)
    await db.execute(
      `insert into large with recursive c(i) as (select ${from} union all select i + 1 from c where i < ${Math.min(rows, from + 10_000) - 1})
       select i, hex(randomblob(${ROW_BYTES / 2})) from c`,
    )
  console.log(
    `${rows} rows of ${ROW_BYTES} bytes, ${values.backend}: server ${mb(await serverMemory())} at most so far`,
  )
  const readers = {
    bytes: async () => {
      let length = 0
      for await (const part of dump(db).bytes()) length += part.byteLength
      return length
    },
    statements: async () => {
      let length = 0
      for await (const statement of dump(db)) length += statement.length
      return length
    },
    'half of the bytes, slowly': async () => {
      let length = 0
      for await (const part of dump(db).bytes()) {
        length += part.byteLength
        if (length > (rows * ROW_BYTES) / 2) break
        await new Promise(setImmediate)
      }
      return length
    },
  }
  for (const [name, read] of Object.entries(readers)) {
    globalThis.gc?.()
    const before = process.memoryUsage().rss / MB
    let most = before
    const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().rss / MB)), 20)
    const started = performance.now()
    const length = await read()
    const seconds = (performance.now() - started) / 1_000
    clearInterval(watch)
    console.log(
      `${name}: ${mb(length / MB)} in ${seconds.toFixed(1)} s (${mb(length / MB / seconds)}/s); ` +
        `client ${mb(before)} before, ${mb(most)} at most; server ${mb(await serverMemory())} at most so far`,
    )
  }
  await db.close()
  server.disconnect()
}

const mb = (count: number): string => `${count.toFixed(0)} MB`

await (values.serve ? serve() : measure())
