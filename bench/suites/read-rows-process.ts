// Reads many rows and reports how much memory that took: read-rows-process.ts URL ROWS
import { createClient, readRows } from '@batonsql/core'
import type { MemoryFigures } from './memory.ts'

const [url = '', rows = ''] = process.argv.slice(2)
const db = createClient({ url })
await db.execute('select 1')
globalThis.gc?.()
const rssBefore = process.memoryUsage().rss
const sql = `with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
  select i, 'name of row ' || i as name, i * 1.25 as real from n`
let count = 0
let peak = rssBefore
const startedAt = performance.now()
for await (const _ of readRows(db, sql, [Number(rows)])) {
  count += 1
  if (count % 10_000 === 0) peak = Math.max(peak, process.memoryUsage().rss)
}
if (count !== Number(rows)) throw new Error(`received only ${count} rows`)
process.send?.({
  rows: count,
  peakMiB: (peak - rssBefore) / 2 ** 20,
  ms: performance.now() - startedAt,
} satisfies MemoryFigures)
await db.close()
process.disconnect()
