// Checks for resource leaks. Keeps 64 calls in flight for several minutes, with one request in ten failing, and samples memory,
// sockets and timers every 15 s. Afterwards, checks for warnings, such as too many listeners, and for streams that are still open
// on the server.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createClient, DatabaseError, readRows, type Transaction } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { startSqld } from '@batonsql/local-server/sqld'
import { seeded } from '../../test/support/random.ts'

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '5' }, seed: { type: 'string', default: '1' } },
})
const IN_FLIGHT = 64
const SAMPLE_MS = 15_000
/** The number of streams that a server accepts before it rejects more. */
const SERVER_STREAMS = 128

const sqld = await startSqld({ namespaces: false })
// the proxy is a separate process, so that its memory is not counted here
const proxy = fork(fileURLToPath(new URL('../../test/support/fault-proxy-process.ts', import.meta.url)), [
  sqld.url,
  values.seed,
])
const [url] = (await once(proxy, 'message')) as [string]
const direct = createClient({ url: sqld.url })
await direct.batch(['create table soak (id integer primary key, a)', 'insert into soak (a) values (1)'])
const db = createClient({ url, requestTimeoutMs: 10_000, concurrency: IN_FLIGHT })

let calls = 0
let failed = 0
const random = seeded(Number(values.seed))
const endsAt = Date.now() + Number(values.minutes) * 60_000
const shortTimeout = (): AbortSignal => AbortSignal.timeout(50 + Math.floor(random() * 100))

/** Makes a random kind of call. Writes are rarely aborted: an aborted write keeps waiting on the server, and holds a stream. */
async function call(): Promise<void> {
  const kind = random()
  if (kind < 0.4)
    await db.execute('select count(*) from soak', [], kind < 0.1 ? { signal: shortTimeout() } : {})
  else if (kind < 0.42) await db.execute('insert into soak (a) values (?)', [1], { signal: shortTimeout() })
  else if (kind < 0.55) await db.execute('insert into soak (a) values (?)', [1])
  else if (kind < 0.7) await db.batch(['insert into soak (a) values (2)', TRIM])
  else if (kind < 0.8) await readSomeRows()
  else await db.transaction(runTransaction, { maxRetries: 1 })
}

const TRIM = 'delete from soak where id < (select max(id) from soak) - 100'

async function readSomeRows(): Promise<void> {
  for await (const _ of readRows(db, 'select a from soak')) {
    if (random() < 0.1) break
  }
}

async function runTransaction(tx: Transaction): Promise<void> {
  await tx.execute('insert into soak (a) values (3)')
  if (random() < 0.2) throw new RangeError('aborted')
  await tx.savepoint((inner) => inner.execute('update soak set a = 4 where id = 1'))
}

async function worker(): Promise<void> {
  while (Date.now() < endsAt) {
    calls += 1
    await call().catch((error: unknown) => {
      const isExpected =
        error instanceof DatabaseError ||
        error instanceof RangeError ||
        (error as Error).name === 'TimeoutError'
      if (!isExpected) throw error
      failed += 1
    })
  }
}

interface Sample {
  readonly seconds: number
  readonly calls: number
  readonly failed: number
  readonly heapMb: number
  readonly sockets: number
  readonly timers: number
}

async function sample(seconds: number): Promise<Sample> {
  const collect = (globalThis as { gc?: () => void }).gc
  for (let i = 0; i < 3; i++) {
    collect?.()
    await pause(10)
  }
  const resources = process.getActiveResourcesInfo()
  const count = (kind: RegExp): number => resources.filter((name) => kind.test(name)).length
  return {
    seconds,
    calls,
    failed,
    heapMb: Math.round(process.memoryUsage().heapUsed / 1e5) / 10,
    sockets: count(/TCP|Socket/),
    timers: count(/Timeout/),
  }
}

const warnings: string[] = []
process.on('warning', (warning) => warnings.push(warning.message))
const startedAt = Date.now()
const workers = Promise.all(Array.from({ length: IN_FLIGHT }, worker))
const samples: Sample[] = []
while (Date.now() + SAMPLE_MS <= endsAt) {
  await pause(SAMPLE_MS)
  samples.push(await sample(Math.round((Date.now() - startedAt) / 1000)))
  console.log(JSON.stringify(samples.at(-1)))
}
await workers
// after 10 s, the server drops a stream whose last response was lost
await pause(11_000)
const idleSample = await sample(Math.round((Date.now() - startedAt) / 1000))
console.log(`idle: ${JSON.stringify(idleSample)}`)

const streams = Array.from({ length: SERVER_STREAMS - 8 }, () => openStream(direct))
const settled = await Promise.allSettled(streams.map((stream) => stream.execute('select 1')))
const rejections = settled.flatMap((result) => (result.status === 'rejected' ? [String(result.reason)] : []))
const rejected = rejections.length
if (rejected > 0) console.log(rejections[0])
await Promise.all(streams.map((stream) => stream.close()))
await db.close()

const middle = samples.length >> 1
const mean = (part: readonly Sample[], getValue: (sample: Sample) => number): number =>
  part.reduce((sum, sample) => sum + getValue(sample), 0) / part.length
const growth = (getValue: (sample: Sample) => number): string =>
  (mean(samples.slice(middle), getValue) / mean(samples.slice(0, middle), getValue)).toFixed(2)
console.log(
  `${calls} calls, ${failed} failed; second half to first: heap ${growth(({ heapMb }) => heapMb)}, sockets ${growth(({ sockets }) => sockets)}, timers ${growth(({ timers }) => timers)}`,
)
console.log(
  `${rejected} of ${streams.length} new streams rejected by the server; warnings: ${warnings.join('; ') || 'none'}`,
)
await direct.close()
proxy.kill()
await sqld.close()
process.exit(rejected > 0 || warnings.length > 0 ? 1 : 0)
