// npm run bench:servers [-- --rounds N]: compares the embedded server with libsql-server, using the same bare client. A
// ratio above 1 means that the embedded one is faster.
import { parseArgs } from 'node:util'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'
import { Pool } from 'undici'

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '9' } } })
const rounds = Number(values.rounds)
if (!Number.isInteger(rounds) || rounds < 2) throw new RangeError('--rounds must be an integer >= 2')

type Requests = readonly object[]
type Send = (requests: Requests, baton?: string | null) => Promise<string>

const close = { type: 'close' }
const execute = (sql: string, ...args: number[]): object => ({
  type: 'execute',
  stmt: { sql, args: args.map((value) => ({ type: 'integer', value: String(value) })) },
})

function client(url: string): { send: Send; closePool: () => Promise<void> } {
  const pool = new Pool(url, { connections: 64 })
  const send: Send = async (requests, baton = null) => {
    const { body } = await pool.request({
      path: '/v3/pipeline',
      method: 'POST',
      body: JSON.stringify({ baton, requests }),
    })
    return await body.text()
  }
  return { send, closePool: () => pool.close() }
}

const getBaton = (text: string): string => (JSON.parse(text) as { baton: string }).baton

const OPERATIONS: Readonly<Record<string, (send: Send) => Promise<unknown>>> = {
  async '300 point SELECTs'(send) {
    for (let id = 1; id <= 300; id += 1) await send([execute('SELECT * FROM t WHERE a = ?', id), close])
  },
  async '1,280 point SELECTs, 64 in flight'(send) {
    const worker = async (first: number): Promise<void> => {
      for (let id = first; id <= 1_280; id += 64)
        await send([execute('SELECT * FROM t WHERE a = ?', id), close])
    }
    await Promise.all(Array.from({ length: 64 }, (_, index) => worker(index + 1)))
  },
  async '200 INSERTs'(send) {
    for (let count = 0; count < 200; count += 1)
      await send([execute('INSERT INTO u (b) VALUES (?)', count), close])
  },
  async '100 transactions of three requests'(send) {
    for (let id = 1; id <= 100; id += 1) {
      const beginResponse = await send([
        execute('BEGIN IMMEDIATE'),
        execute('SELECT b FROM t WHERE a = ?', id),
      ])
      const updateResponse = await send(
        [execute('UPDATE t SET b = b + 1 WHERE a = ?', id)],
        getBaton(beginResponse),
      )
      await send([execute('COMMIT'), close], getBaton(updateResponse))
    }
  },
  async '4 results of 10,000 rows'(send) {
    for (let count = 0; count < 4; count += 1)
      await send([execute('SELECT * FROM t WHERE a <= 10000'), close])
  },
}

const SETUP = [
  'CREATE TABLE t (a INTEGER PRIMARY KEY, b, c, d, e, f)',
  "INSERT INTO t SELECT value, value * 900719925474, 'name ' || value, 'some text ' || value, value * 1.5, randomblob(16) FROM generate_series(1, 10000)",
  'CREATE TABLE u (a INTEGER PRIMARY KEY, b)',
]

await using embedded = await startLocalServer()
await using sqld = await startSqld()
const clients = [client(embedded.url), client(sqld.url)]
for (const { send } of clients) await send([...SETUP.map((sql) => execute(sql)), close])
console.log(`${embedded.version} compared with ${sqld.version}, node ${process.version}, ${rounds} rounds\n`)

const table: Record<string, Record<string, string>> = {}
for (const [title, run] of Object.entries(OPERATIONS)) {
  const ratios: number[] = []
  const times: number[][] = [[], []]
  // the first round warms up
  for (let round = 0; round <= rounds; round += 1) {
    const roundTimes = [0, 0]
    for (const index of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const startedAt = performance.now()
      await run((clients[index] as (typeof clients)[number]).send)
      roundTimes[index] = performance.now() - startedAt
    }
    if (round === 0) continue
    for (const index of [0, 1]) (times[index] as number[]).push(roundTimes[index] as number)
    ratios.push((roundTimes[1] as number) / (roundTimes[0] as number))
  }
  table[title] = {
    'embedded, ms': median(times[0] as number[]).toFixed(0),
    'libsql-server, ms': median(times[1] as number[]).toFixed(0),
    'ratio (min–max)': `${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`,
  }
}
console.table(table)
await Promise.all(clients.map(({ closePool }) => closePool()))

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] as number
}
