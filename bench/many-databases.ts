// npm run bench:many [-- --count N] [-- --backend embedded|sqld]: what many databases on one server cost, in time and memory.
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'

/** Longer than a database is kept open without use. */
const IDLE_MS = 12_000
const AT_ONCE = 8

const { values } = parseArgs({
  options: { count: { type: 'string', default: '1000' }, backend: { type: 'string', default: 'embedded' } },
})
const count = Number(values.count)
if (!Number.isInteger(count) || count < 1) throw new RangeError('--count must be an integer from 1 up')
const backend = values.backend === 'sqld' ? 'sqld' : 'embedded'

const names = Array.from({ length: count }, (_, at) => `tenant-${at}`)
const megabytes = (): number => Math.round(process.memoryUsage.rss() / 1e6)

async function measured(what: string, act: (name: string) => Promise<unknown>): Promise<void> {
  const started = performance.now()
  let next = 0
  const lane = async (): Promise<void> => {
    for (let at = next++; at < names.length; at = next++) await act(names[at] as string)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  const seconds = (performance.now() - started) / 1_000
  console.log(`${what}: ${(count / seconds).toFixed(0)}/s, RSS of this process ${megabytes()} MB`)
}

console.log(
  `${count} databases, back end ${backend}, node ${process.version}; RSS at the start ${megabytes()} MB`,
)
await using server = await startLocalServer({ backend })
console.log(`server started: RSS ${megabytes()} MB`)
const one = async (name: string, sql: string): Promise<unknown> => {
  await using db = createClient({ url: server.urlOf(name) })
  return await db.execute(sql)
}
await measured('create', (name) => server.createDatabase(name))
await measured('write to each once', (name) => one(name, 'create table note (text)'))
await measured('read each once', (name) => one(name, 'select count(*) from note'))
await sleep(IDLE_MS)
globalThis.gc?.()
console.log(`${IDLE_MS / 1_000} s later: RSS ${megabytes()} MB`)
await measured('read each again', (name) => one(name, 'select count(*) from note'))
await measured('remove', (name) => server.removeDatabase(name))
await sleep(IDLE_MS)
globalThis.gc?.()
console.log(`${IDLE_MS / 1_000} s later: RSS ${megabytes()} MB`)
