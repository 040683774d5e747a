/**
 * Measures the cost of one call inside core and the Kysely dialect: source files and functions entered, function calls, promises
 * created, and bytes that a minor garbage collection does not free (they are copied twice, and freed only by a full one). The
 * server is a function that responds immediately, so that nothing else is counted. Run: npm run bench:flow;
 * `-- --list 'transaction of one statement'` prints the functions of one flow
 */
import { createHook } from 'node:async_hooks'
import { Session } from 'node:inspector/promises'
import { parseArgs } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type Client, createClient } from '@batonsql/core'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { Kysely } from 'kysely'

const { values } = parseArgs({ options: { list: { type: 'string' } } })

interface Cost {
  files: number
  functions: number
  entries: number
  /** How often each function was entered, most frequent first. */
  counts: readonly { readonly count: number; readonly name: string }[]
  promises: number
  retainedBytes: number
}

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void

const result = { cols: [], rows: [], affected_row_count: 1, last_insert_rowid: '7' }

interface Operation {
  readonly type: string
  readonly batch?: { readonly steps: readonly { readonly stmt: { readonly sql?: string } }[] }
}

/** Responds like a server on which everything succeeds. Skips steps that would prove a lost transaction. */
function makeResponse(body: string): string {
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

interface Schema {
  person: { id: number; name: string }
}

const FLOWS: Record<string, (db: Client, kysely: Kysely<Schema>) => Promise<unknown>> = {
  'one statement': (db) => db.execute('select 1'),
  'transaction of one statement': (db) => db.transaction((tx) => tx.execute(INSERT, ['Ada'])),
  'transaction of three statements': (db) =>
    db.transaction(async (tx) => {
      await tx.execute(INSERT, ['Ada'])
      await tx.execute(INSERT, ['Bob'])
      await tx.execute(INSERT, ['Cid'])
    }),
  'Kysely: one statement': (_, kysely) => kysely.selectFrom('person').selectAll().execute(),
  'Kysely: transaction of one statement': (_, kysely) =>
    kysely.transaction().execute((trx) => trx.insertInto('person').values({ id: 1, name: 'Ada' }).execute()),
}

const response = (text: string) => ({ status: 200, text: () => Promise.resolve(text) })
const db = createClient({
  url: 'http://localhost',
  fetch: (_url, { body = '' }) => Promise.resolve(response(makeResponse(body))),
})
const kysely = new Kysely<Schema>({ dialect: new BatonDialect({ client: db }) })

async function measureCost(run: () => Promise<unknown>): Promise<Cost> {
  for (let index = 0; index < 5; index++) await run()
  let promises = 0
  const hook = createHook({
    init: (_id, type) => {
      if (type === 'PROMISE') promises += 1
    },
  })
  hook.enable()
  await run()
  hook.disable()
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  await run()
  const { result: scripts } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  let files = 0
  let functions = 0
  let entries = 0
  const counts: { count: number; name: string }[] = []
  for (const { url, functions: coverage } of scripts) {
    if (!/packages\/(core|kysely-dialect)\/(src|dist)\//.test(url)) continue
    const entered = coverage.filter(
      ({ functionName, ranges: [range] }) => functionName !== '' && range?.count,
    )
    if (entered.length === 0) continue
    files += 1
    functions += entered.length
    for (const { functionName, ranges } of entered) {
      const count = ranges[0]?.count ?? 0
      entries += count
      counts.push({ count, name: `${url.replace(/.*\/packages\//, '')} ${functionName}` })
    }
  }
  counts.sort((a, b) => b.count - a.count || a.name.localeCompare(b.name))
  return { files, functions, entries, counts, promises, retainedBytes: await measureRetainedBytes(run) }
}

async function measureRetainedBytes(run: () => Promise<unknown>): Promise<number> {
  const calls = 300
  for (let index = 0; index < 3_000; index++) await run()
  collectGarbage()
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let index = 0; index < calls; index++) await run()
  collectGarbage({ type: 'minor' })
  return Math.max(0, Math.round((process.memoryUsage().heapUsed - before) / calls))
}

for (const [name, flow] of Object.entries(FLOWS)) {
  const { files, functions, entries, counts, promises, retainedBytes } = await measureCost(() =>
    flow(db, kysely),
  )
  console.log(
    `${name}: ${files} files, ${functions} functions, ${entries} entries, ${promises} promises, ${retainedBytes} bytes retained`,
  )
  if (name === values.list)
    for (const { count, name: functionName } of counts) console.log(`  ${count} ${functionName}`)
}
await db.close()
