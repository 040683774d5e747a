// Measures what a fresh database per test costs with `useDatabase`, given a running server and a template of 30 tables and 1,000
// rows: the time until the test starts, until its first response, and until the database has been removed. Compares it with
// running the same statements for each test. Run: npm run bench:testing [-- --tests N]
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { type TestDatabase, type TestHooks, useDatabase } from '@batonsql/local-server/testing'

const { values } = parseArgs({ options: { tests: { type: 'string', default: '200' } } })
const TESTS = Number(values.tests)
const WARM_UP = 10
const schema = [
  ...Array.from(
    { length: 30 },
    (_, index) => `create table t${index} (id integer primary key, name text unique, at integer)`,
  ),
  `with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000)
   insert into t0 select i, 'name ' || i, i from n`,
]

async function migrate(config: TestDatabase['config']): Promise<void> {
  const db = createClient(config)
  await db.batch(schema)
  await db.close()
}

/** Runs tests without a test runner. */
class Runner {
  readonly #hooks: Partial<Record<keyof TestHooks, () => Promise<void>>> = {}
  readonly hooks: TestHooks = {
    beforeAll: (work) => (this.#hooks.beforeAll = work),
    beforeEach: (work) => (this.#hooks.beforeEach = work),
    afterEach: (work) => (this.#hooks.afterEach = work),
    afterAll: (work) => (this.#hooks.afterAll = work),
  }

  async call(hook: keyof TestHooks): Promise<void> {
    await this.#hooks[hook]?.()
  }
}

/** Times of each test, in ms. */
interface Times {
  readonly ready: number[]
  readonly firstResponse: number[]
  readonly total: number[]
}

async function measure(options: {
  template?: typeof migrate
  statements?: readonly string[]
}): Promise<Times> {
  const { template, statements = [] } = options
  const runner = new Runner()
  const database = useDatabase({ ...(template && { template }), hooks: runner.hooks })
  const times: Times = { ready: [], firstResponse: [], total: [] }
  await runner.call('beforeAll')
  for (let round = 0; round < TESTS + WARM_UP; round++) {
    const startedAt = performance.now()
    await runner.call('beforeEach')
    const ready = performance.now() - startedAt
    const db = createClient(database.config)
    if (statements.length > 0) await db.batch(statements)
    await db.execute('select count(*) from t0')
    const firstResponse = performance.now() - startedAt
    await db.close()
    await runner.call('afterEach')
    if (round < WARM_UP) continue
    times.ready.push(ready)
    times.firstResponse.push(firstResponse)
    times.total.push(performance.now() - startedAt)
  }
  await runner.call('afterAll')
  return times
}

function summarize(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number): string => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(1)
  return `${at(0.5)} ms (95th percentile: ${at(0.95)} ms)`
}

for (const [name, options] of [
  ['copied from a template', { template: migrate }],
  ['empty, with the statements run in each test', { statements: schema }],
] as const) {
  const { ready, firstResponse, total } = await measure(options)
  console.log(`${name}, ${TESTS} tests: median`)
  console.log(`  until the test starts    ${summarize(ready)}`)
  console.log(`  until its first response ${summarize(firstResponse)}`)
  console.log(`  until the test has ended ${summarize(total)}`)
}
