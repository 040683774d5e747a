import { autocommit, close, execute, pipeline, type WireRequest } from './wire.ts'

/** A change by a client: its number of rows, and the outcome that the client received. */
interface Change {
  readonly parts: number
  outcome: 'unknown' | 'acknowledged' | 'never committed'
}

/** Every change that was ever attempted, by `client/number`. */
export type Ledger = Map<string, Change>

/** The kinds of clients, each with its own way to write. */
export const CLIENTS = [
  'single',
  'batch',
  'transaction',
  'sequence',
  'huge',
  'cursor',
  'churn',
  'open',
] as const

interface ClientOptions {
  readonly client: number
  readonly ledger: Ledger
  random(): number
}

/** More than fits in the engine's page cache, and more than the size at which its WAL is checkpointed. */
const HUGE_PARTS = 1_500
const HUGE_BYTES = 4_000

/** Counts the acknowledged changes of one client or of all. */
export function countAcknowledged(ledger: Ledger, client?: number): number {
  return [...ledger].filter(([key, { outcome }]) => outcome === 'acknowledged' && belongsTo(key, client))
    .length
}

export function countAttempts(ledger: Ledger, client: number): number {
  return [...ledger.keys()].filter((key) => belongsTo(key, client)).length
}

function belongsTo(key: string, client: number | undefined): boolean {
  return client === undefined || key.startsWith(`${client}/`)
}

/** Writes until the server is killed. */
export async function runClient(
  url: string,
  kind: (typeof CLIENTS)[number],
  { client, ledger, random }: ClientOptions,
): Promise<void> {
  const firstNumber = countAttempts(ledger, client)
  for (let number = firstNumber; ; number += 1) {
    const parts = kind === 'huge' ? HUGE_PARTS : 1 + Math.floor(random() * 5)
    const change: Change = {
      parts: kind === 'single' ? 1 : parts,
      outcome: kind === 'open' ? 'never committed' : 'unknown',
    }
    ledger.set(`${client}/${number}`, change)
    try {
      if (await WRITERS[kind](url, { client, number, parts: change.parts })) change.outcome = 'acknowledged'
    } catch {
      return
    }
  }
}

interface Rows {
  readonly client: number
  readonly number: number
  readonly parts: number
}

/** Each makes a change, and returns whether it was acknowledged as committed. Rejects when the server is killed. */
const WRITERS: Record<(typeof CLIENTS)[number], (url: string, rows: Rows) => Promise<boolean>> = {
  single: async (url, rows) => await succeeds(url, [execute(insert(rows, 0)), close]),
  batch: async (url, rows) => {
    const sql = ['BEGIN IMMEDIATE', ...insertStatements(rows), 'COMMIT']
    const steps = sql.map((text, step) => ({
      stmt: { sql: text },
      ...(step > 0 && { condition: { type: 'ok', step: step - 1 } }),
    }))
    return await succeeds(url, [{ type: 'batch', batch: { steps } }, autocommit, close])
  },
  transaction: async (url, rows) => {
    let stream = await pipeline(url, [execute('BEGIN IMMEDIATE')])
    for (const sql of insertStatements(rows))
      stream = await pipeline(url, [execute(sql)], { baton: stream.baton })
    return await succeeds(url, [execute('COMMIT'), close], stream.baton)
  },
  sequence: async (url, rows) => {
    const sql = [
      'BEGIN',
      `EXPLAIN ${insert(rows, 0)}`,
      'EXPLAIN DROP TABLE t',
      ...insertStatements(rows),
      'COMMIT',
    ].join(';')
    return await succeeds(url, [{ type: 'sequence', sql }, close])
  },
  huge: async (url, { client, number, parts }) => {
    const filler = `hex(randomblob(${HUGE_BYTES / 2}))`
    const sql = `INSERT INTO t SELECT ${client}, ${number}, value, ${filler} FROM generate_series(1, ${parts})`
    const isCommitted = await succeeds(url, [execute(sql), close])
    // makes the pages of earlier rows reusable
    await succeeds(url, [
      execute(`UPDATE t SET filler = NULL WHERE client = ${client} AND number < ${number}`),
      close,
    ])
    return isCommitted
  },
  cursor: async (url, rows) => {
    const selectManyRows = 'SELECT hex(randomblob(100)) FROM generate_series(1, 3000)'
    const steps = ['BEGIN IMMEDIATE', ...insertStatements(rows), selectManyRows, 'COMMIT'].map((sql) => ({
      stmt: { sql },
    }))
    const body = JSON.stringify({ batch: { steps } })
    const response = await fetch(`${url.replace(/\/$/, '')}/v3/cursor`, { method: 'POST', body })
    const text = await response.text()
    return !text.includes('step_error') && text.includes('"type":"replication_index"')
  },
  churn: async (url, rows) => {
    const table = `churn_${rows.number % 3}`
    await pipeline(url, [
      execute(`CREATE TABLE IF NOT EXISTS ${table} (a, b)`),
      execute(`INSERT INTO ${table} SELECT value, hex(randomblob(500)) FROM generate_series(1, 500)`),
      execute(`CREATE INDEX ${table}_b ON ${table} (b)`),
      execute(`DROP TABLE ${table}`),
      close,
    ])
    return await succeeds(url, [
      { type: 'sequence', sql: ['BEGIN', ...insertStatements(rows), 'COMMIT'].join(';') },
      close,
    ])
  },
  // a transaction that is never committed: its client closes the stream without COMMIT, or after ROLLBACK
  open: async (url, rows) => {
    const stream = await pipeline(url, [
      execute('BEGIN'),
      execute('SELECT count(*) FROM t'),
      execute(insert(rows, 0)),
    ])
    await pipeline(url, [execute(rows.number % 2 === 0 ? 'SELECT 1' : 'ROLLBACK'), close], {
      baton: stream.baton,
    })
    return false
  },
}

function insertStatements(rows: Rows): string[] {
  return Array.from({ length: rows.parts }, (_, part) => insert(rows, part))
}

function insert({ client, number }: Rows, part: number): string {
  return `INSERT INTO t VALUES (${client}, ${number}, ${part}, hex(randomblob(200)))`
}

async function succeeds(
  url: string,
  requests: readonly WireRequest[],
  baton: string | null = null,
): Promise<boolean> {
  const { status, text } = await pipeline(url, requests, { baton })
  return status === 200 && !text.includes('"type":"error"') && !/"step_errors":\[[^\]]*\{/.test(text)
}
