/**
 * Measures the cost of one call inside core: source files and functions entered, function calls, promises created, and bytes that
 * a minor garbage collection does not free (they are copied twice, and freed only by a full one). The server is a function that
 * responds immediately, so that nothing else is counted. Run: npm run bench:flow
 */
import { createHook } from 'node:async_hooks'
import { Session } from 'node:inspector/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Client, createClient } from '@batonsql/core'

interface Cost {
  files: number
  functions: number
  entries: number
  promises: number
  keptBytes: number
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void

const result = { cols: [], rows: [], affected_row_count: 1, last_insert_rowid: '7' }

interface Operation {
  readonly type: string
  readonly batch?: { readonly steps: readonly { readonly stmt: { readonly sql?: string } }[] }
}

/** Responds like a server on which everything succeeds. A step that proves a loss is skipped. */
function responseTo(body: string): string {
  const { requests } = JSON.parse(body) as { requests: Operation[] }
  const results = requests.map(({ type, batch }) => {
    if (type === 'close') return { type: 'ok', response: { type } }
    if (!batch) return { type: 'ok', response: { type, result } }
    const { steps } = batch
    const step_results = steps.map(({ stmt }) => (stmt.sql === 'SELECT 1' ? null : result))
    const response = { type, result: { step_results, step_errors: steps.map(() => null) } }
    return { type: 'ok', response }
  })
  const isClosed = requests.at(-1)?.type === 'close'
  return JSON.stringify({ baton: isClosed ? null : 'baton', base_url: null, results })
}

const INSERT = 'insert into person (name) values (?)'

const FLOWS: Record<string, (db: Client) => Promise<unknown>> = {
  'one statement': (db) => db.execute('select 1'),
  'transaction of one': (db) => db.transaction((tx) => tx.execute(INSERT, ['Ada'])),
  'transaction of three': (db) =>
    db.transaction(async (tx) => {
      await tx.execute(INSERT, ['Ada'])
      await tx.execute(INSERT, ['Bob'])
      await tx.execute(INSERT, ['Cid'])
    }),
}

const response = (text: string) => ({ status: 200, text: () => Promise.resolve(text) })
const db = createClient({
  url: 'http://localhost',
  fetch: (_url, { body = '' }) => Promise.resolve(response(responseTo(body))),
})

async function costOf(flow: (db: Client) => Promise<unknown>): Promise<Cost> {
  for (let at = 0; at < 5; at++) await flow(db)
  let promises = 0
  const hook = createHook({
    init: (_id, type) => {
      if (type === 'PROMISE') promises += 1
    },
  })
  hook.enable()
  await flow(db)
  hook.disable()
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  await flow(db)
  const { result: scripts } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  let files = 0
  let functions = 0
  let entries = 0
  for (const { url, functions: all } of scripts) {
    if (!/packages\/core\/(src|dist)\//.test(url)) continue
    const entered = all.filter(({ functionName, ranges: [range] }) => functionName !== '' && range?.count)
    if (entered.length === 0) continue
    files += 1
    functions += entered.length
    entries += entered.reduce((sum, { ranges: [range] }) => sum + (range?.count ?? 0), 0)
  }
  return { files, functions, entries, promises, keptBytes: await keptBytesOf(flow) }
}

async function keptBytesOf(flow: (db: Client) => Promise<unknown>): Promise<number> {
  const calls = 300
  for (let at = 0; at < 3_000; at++) await flow(db)
  collect()
  collect()
  const before = process.memoryUsage().heapUsed
  for (let at = 0; at < calls; at++) await flow(db)
  collect({ type: 'minor' })
  return Math.max(0, Math.round((process.memoryUsage().heapUsed - before) / calls))
}

for (const [name, flow] of Object.entries(FLOWS)) {
  const { files, functions, entries, promises, keptBytes } = await costOf(flow)
  console.log(
    `${name}: ${files} files, ${functions} functions, ${entries} entries, ${promises} promises, ${keptBytes} bytes kept`,
  )
}
await db.close()
