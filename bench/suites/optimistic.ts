import { type Client, createClient, optimistic } from '@batonsql/core'
import { createClient as createLibsqlClient } from '@libsql/client/http'
import { connect } from '@tursodatabase/serverless'
import { type Measurement, toMeasurement } from '../lib/results.ts'
import { openChild } from '../servers/open-servers.ts'

const CALLERS = 16
const SECONDS = 3
const ROUND_TRIPS_MS = [25, 50, 150]
/** Transactions choose their rows among this many; with 16 callers, 1,000 rows rarely collide and 1 always does. */
const ROW_COUNTS = [1_000, 8, 1]
const BASELINE = 'transaction()'
/** Goals for the ratio to the baseline, over a round trip of 50 ms, by number of rows. */
const GOALS: Readonly<Record<number, string>> = { 1_000: '>= 10.00', 8: '>= 2.00', 1: '>= 0.90' }

/** Moves one unit between two rows, with two reads and two writes, each awaited. */
type Move = (from: number, to: number) => Promise<unknown>
interface Mover {
  /** Whether a transaction may fail, which then does not count. */
  readonly mayFail?: boolean
  readonly move: Move
  readonly close: () => Promise<unknown>
}

const READ = 'select n from counter where id = ?'
const WRITE = 'update counter set n = ? where id = ?'

function coreMover(url: string, run: (db: Client, from: number, to: number) => Promise<unknown>): Mover {
  const db = createClient({ url })
  return { move: (from, to) => run(db, from, to), close: () => db.close() }
}

const MOVERS: Readonly<Record<string, (url: string) => Mover>> = {
  'optimistic()': (url) =>
    coreMover(url, (db, from, to) =>
      optimistic(db, async (tx) => {
        const a = await tx.execute<{ n: number }>(READ, [from])
        const b = await tx.execute<{ n: number }>(READ, [to])
        return [
          { sql: WRITE, args: [(a.rows[0]?.n ?? 0) - 1, from] },
          { sql: WRITE, args: [(b.rows[0]?.n ?? 0) + 1, to] },
        ]
      }),
    ),
  [BASELINE]: (url) =>
    coreMover(url, (db, from, to) =>
      db.transaction(
        async (tx) => {
          const a = await tx.execute<{ n: number }>(READ, [from])
          const b = await tx.execute<{ n: number }>(READ, [to])
          await tx.execute(WRITE, [(a.rows[0]?.n ?? 0) - 1, from])
          await tx.execute(WRITE, [(b.rows[0]?.n ?? 0) + 1, to])
        },
        { maxRetries: 3 },
      ),
    ),
  '@libsql/client': (url) => {
    const db = createLibsqlClient({ url })
    const move: Move = async (from, to) => {
      const tx = await db.transaction('write')
      try {
        const a = await tx.execute({ sql: READ, args: [from] })
        const b = await tx.execute({ sql: READ, args: [to] })
        await tx.execute({ sql: WRITE, args: [Number(a.rows[0]?.['n']) - 1, from] })
        await tx.execute({ sql: WRITE, args: [Number(b.rows[0]?.['n']) + 1, to] })
        await tx.commit()
      } finally {
        tx.close()
      }
    }
    return { move, close: async () => db.close(), mayFail: true }
  },
  '@tursodatabase/serverless': (url) => {
    // a connection runs one transaction at a time
    const connections = Array.from({ length: CALLERS }, () => connect({ url }))
    const move: Move = async (from, to) => {
      const db = connections.pop() ?? connect({ url })
      try {
        await db.transactionAsync(
          async (tx: { all(sql: string, ...args: unknown[]): Promise<{ n: number }[]> }) => {
            const [a] = await tx.all(READ, from)
            const [b] = await tx.all(READ, to)
            await tx.all(WRITE, (a?.n ?? 0) - 1, from)
            await tx.all(WRITE, (b?.n ?? 0) + 1, to)
          },
        )()
      } finally {
        connections.push(db)
      }
    }
    return { move, close: () => Promise.all(connections.map((db) => db.close())), mayFail: true }
  },
}

/**
 * Measures the transactions that 16 callers complete in a second on a database that is far away. With core, the sum of all rows must not
 * change.
 */
export async function measureOptimistic(url: string, rounds: number): Promise<Measurement[]> {
  await using direct = createClient({ url })
  const measurements: Measurement[] = []
  for (const roundTripMs of ROUND_TRIPS_MS) {
    await using proxy = await openChild('far-away', url, String(roundTripMs))
    for (const rowCount of ROW_COUNTS) {
      const samples = new Map(
        Object.keys(MOVERS).map((name) => [name, { rate: [] as number[], p95: [] as number[] }]),
      )
      for (let round = 0; round < rounds; round++)
        for (const [name, open] of Object.entries(MOVERS)) {
          const { rate, p95 } = await runCallers(direct, open(proxy.url), rowCount)
          samples.get(name)?.rate.push(rate)
          samples.get(name)?.p95.push(p95)
        }
      const rows = rowCount === 1 ? '1 row' : `${rowCount.toLocaleString('en')} rows`
      const labels = {
        suite: 'optimistic',
        operation: `${rows}, ${roundTripMs} ms`,
        environment: 'libsql-server',
        baseline: BASELINE,
      }
      const base = samples.get(BASELINE)
      for (const [subject, { rate, p95 }] of samples) {
        const goal = subject === 'optimistic()' && roundTripMs === 50 ? GOALS[rowCount] : undefined
        measurements.push(
          toMeasurement(
            { ...labels, subject, unit: 'transactions/s', ...(goal && { goal }) },
            rate,
            base?.rate ?? rate,
          ),
          toMeasurement({ ...labels, subject, unit: 'ms, 95th percentile' }, p95, base?.p95 ?? p95),
        )
      }
    }
  }
  return measurements
}

async function runCallers(
  direct: Client,
  { move, close, mayFail = false }: Mover,
  rowCount: number,
): Promise<{ rate: number; p95: number }> {
  await direct.batch([
    'drop table if exists counter',
    'create table counter (id integer primary key, n integer)',
    {
      sql: 'insert into counter select value, 0 from generate_series(0, ?)',
      // two rows even if all transactions write the first
      args: [Math.max(rowCount, 2) - 1],
    },
  ])
  const durations: number[] = []
  const startedAt = performance.now()
  const endsAt = startedAt + SECONDS * 1_000
  const call = async (): Promise<void> => {
    while (performance.now() < endsAt) {
      const began = performance.now()
      const from = Math.floor(Math.random() * rowCount)
      try {
        await move(from, (from + 1) % Math.max(rowCount, 2))
        durations.push(performance.now() - began)
      } catch (error) {
        if (!mayFail) throw error
      }
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, call))
  const seconds = (performance.now() - startedAt) / 1_000
  await close()
  if (mayFail) return summarize(durations, seconds)
  const { rows } = await direct.execute<{ n: number }>('select sum(n) as n from counter')
  if (rows[0]?.n !== 0) throw new Error(`transactions were torn: the sum is ${rows[0]?.n}`)
  return summarize(durations, seconds)
}

function summarize(durations: readonly number[], seconds: number): { rate: number; p95: number } {
  const sorted = durations.toSorted((a, b) => a - b)
  return { rate: durations.length / seconds, p95: sorted[Math.floor(sorted.length * 0.95)] ?? Number.NaN }
}
