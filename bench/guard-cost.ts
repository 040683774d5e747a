// Measures the cost of the guard against torn transactions: transactions of awaited statements with and without it, with raw
// undici (the same requests except for the guard) and with core. Run: npm run bench:guard [-- --rounds N]
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { startSqld } from '@batonsql/local-server/sqld'
import { Pool } from 'undici'

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '15' } } })
const STATEMENTS = 10
const TRANSACTIONS = 20
const INSERT = 'insert into guarded (a) values (1)'
const V3_GUARD = '{"type":"not","cond":{"type":"is_autocommit"}}'

const sqld = await startSqld({ namespaces: false })
const db = createClient({ url: sqld.url })
await db.execute('create table guarded (id integer primary key, a)')
const pool = new Pool(sqld.url)
const headers = { 'content-type': 'application/json' }

/** Returns the operation of a request that runs a statement, alone or with its guard. */
type MakeOperation = (sql: string) => string
const execute: MakeOperation = (sql) => `{"type":"execute","stmt":{"sql":"${sql}"}}`
const executeGuardedOnV3: MakeOperation = (sql) =>
  `{"type":"batch","batch":{"steps":[{"stmt":{"sql":"${sql}"},"condition":${V3_GUARD}}]}}`
// a BEGIN that must fail, and a ROLLBACK in case it does not
const executeGuardedOnV2: MakeOperation = (sql) =>
  `{"type":"batch","batch":{"steps":[{"stmt":{"sql":"BEGIN"}},{"stmt":{"sql":"ROLLBACK"},"condition":{"type":"ok","step":0}},{"stmt":{"sql":"${sql}"},"condition":{"type":"not","cond":{"type":"ok","step":0}}}]}}`

/** Runs a handwritten transaction. */
async function runByHand(path: string, makeOperation: MakeOperation): Promise<void> {
  let baton = ''
  const send = async (operations: string): Promise<void> => {
    const body = `{${baton && `"baton":"${baton}",`}"requests":[${operations}]}`
    const response = await pool.request({ method: 'POST', path, headers, body })
    const { baton: next } = JSON.parse(await response.body.text()) as { baton: string | null }
    baton = next ?? ''
  }
  await send(`${execute('BEGIN IMMEDIATE')},${execute(INSERT)}`)
  for (let index = 1; index < STATEMENTS; index++) await send(makeOperation(INSERT))
  await send(`${makeOperation('COMMIT')},{"type":"close"}`)
}

const SUBJECTS: Record<string, () => Promise<void>> = {
  'by hand, no guard': () => runByHand('/v3/pipeline', execute),
  'by hand, guard of /v3': () => runByHand('/v3/pipeline', executeGuardedOnV3),
  'by hand, no guard, /v2': () => runByHand('/v2/pipeline', execute),
  'by hand, guard of /v2': () => runByHand('/v2/pipeline', executeGuardedOnV2),
  '@batonsql/core': () =>
    db.transaction(async (tx) => {
      for (let index = 0; index < STATEMENTS; index++) await tx.execute(INSERT)
    }),
}

const times = new Map<string, number[]>()
for (let round = -2; round < Number(values.rounds); round++) {
  for (const [name, run] of Object.entries(SUBJECTS)) {
    const startedAt = performance.now()
    for (let index = 0; index < TRANSACTIONS; index++) await run()
    const micros = ((performance.now() - startedAt) * 1000) / (TRANSACTIONS * STATEMENTS)
    // two warm-up rounds
    if (round >= 0) times.set(name, [...(times.get(name) ?? []), micros])
  }
}
const median = (name: string): number => {
  const sorted = (times.get(name) ?? []).toSorted((a, b) => a - b)
  return sorted[sorted.length >> 1] ?? Number.NaN
}
console.log(
  `a transaction of ${STATEMENTS} awaited statements, median of ${values.rounds} rounds, per statement`,
)
console.table(
  Object.fromEntries(
    Object.keys(SUBJECTS).map((name) => [
      name,
      {
        µs: median(name).toFixed(0),
        'vs. no guard': (
          median(name) / median(name.includes('/v2') ? 'by hand, no guard, /v2' : 'by hand, no guard')
        ).toFixed(2),
      },
    ]),
  ),
)
await db.close()
await pool.close()
await sqld.close()
