// Measures whether simultaneous Kysely queries run in parallel: ten selects, with 50 ms added to every request.
// Run: npm run bench:kysely
import { BatonDialect } from '@batonsql/kysely-dialect'
import { startSqld } from '@batonsql/local-server/sqld'
import { Kysely, sql } from 'kysely'
import { FaultProxy } from '../test/support/fault-proxy.ts'

const LATENCY_MS = 50
const QUERIES = 10

const sqld = await startSqld({ namespaces: false })
const proxy = await FaultProxy.start(sqld.url)
proxy.next = () => ({ kind: 'delay', ms: LATENCY_MS })
const db = new Kysely<object>({ dialect: new BatonDialect({ url: proxy.url }) })
const runAll = (): Promise<unknown> =>
  Promise.all(Array.from({ length: QUERIES }, (_, index) => sql`select ${index}`.execute(db)))
await runAll()
const times: number[] = []
for (let round = 0; round < 9; round++) {
  const startedAt = performance.now()
  await runAll()
  times.push(performance.now() - startedAt)
}
const median = times.toSorted((a, b) => a - b)[4] ?? 0
console.log(
  `${QUERIES} parallel selects at ${LATENCY_MS} ms: median ${median.toFixed(0)} ms (one after the other: at least ${QUERIES * LATENCY_MS} ms; target < 100 ms)`,
)
await db.destroy()
await proxy.close()
await sqld.close()
