import { type Client, DatabaseError } from '@batonsql/core'
import { type Fault, NO_FAULT } from '../../support/fault-proxy.ts'
import { pick } from '../../support/random.ts'

/** One write, or the rows of one transaction or batch, and the outcome that its caller received. */
interface WriteRecord {
  readonly id: number
  readonly rows: number
  outcome: 'acknowledged' | 'not_applied' | 'unknown'
}

export interface AccountingReport {
  readonly writes: number
  readonly acknowledged: number
  readonly notApplied: number
  readonly unknown: number
  /** The number of unknown writes that were applied. */
  readonly unknownApplied: number
  /** Each names a write and what is wrong with it. */
  readonly violations: readonly string[]
}

const FAULTS: readonly Fault[] = [
  { kind: 'delay', ms: 15 },
  { kind: 'drop-before' },
  { kind: 'drop-after' },
  { kind: 'truncate' },
  { kind: 'status', status: 429, html: false },
  { kind: 'status', status: 502, html: true },
  { kind: 'status', status: 503, html: false },
  { kind: 'status', status: 504, html: true },
  { kind: 'status-after', status: 502 },
  { kind: 'status-after', status: 504 },
]

/**
 * Chooses a fault for one request in ten.
 * @param keepsTransactions whether to keep responses that continue a transaction. If one is lost, the transaction cannot be
 * closed, and the server blocks all writers for up to 5 s.
 */
export function randomFault(random: () => number, body: string, keepsTransactions: boolean): Fault {
  if (random() >= 0.1) return NO_FAULT
  const fault = pick(random, FAULTS)
  const losesResponse = ['drop-after', 'truncate', 'status-after'].includes(fault.kind)
  const continues = !body.includes('"type":"close"')
  return keepsTransactions && losesResponse && continues ? NO_FAULT : fault
}

/**
 * Writes rows in every possible way while requests fail, then compares the table with the outcomes that the callers
 * received.
 * @param db a client whose requests fail @param direct a client without faults
 */
export async function runAccounting(
  db: Client,
  direct: Client,
  count: number,
  inFlight: number,
  random: () => number,
  { beforeCounting }: { readonly beforeCounting?: () => Promise<unknown> } = {},
): Promise<AccountingReport> {
  await direct.batch(['drop table if exists account', 'create table account (id integer, part integer)'])
  const writes: WriteRecord[] = []
  let nextId = 0
  const worker = async (): Promise<void> => {
    for (let id = nextId++; id < count; id = nextId++) {
      const rows = 1 + Math.floor(random() * 4)
      const entry: WriteRecord = { id, rows, outcome: 'acknowledged' }
      writes.push(entry)
      await write(db, entry, random).catch((error: unknown) => {
        if (!(error instanceof DatabaseError)) throw error
        entry.outcome = error.outcome
      })
    }
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
  await beforeCounting?.()
  const stored = await direct.execute<{ id: number; n: number; parts: number }>(
    'select id, count(*) as n, count(distinct part) as parts from account group by id',
  )
  return checkWrites(writes, new Map(stored.rows.map((row) => [row.id, row])))
}

async function write(db: Client, { id, rows }: WriteRecord, random: () => number): Promise<void> {
  const parts = Array.from({ length: rows }, (_, part) => ({
    sql: 'insert into account values (?, ?)',
    args: [id, part],
  }))
  const method = random()
  if (rows === 1 && method < 0.7) await db.execute(parts[0]!)
  else if (method < 0.4) await db.batch(parts)
  else if (method < 0.7) {
    await db.transaction(async (tx) => {
      for (const part of parts) await tx.execute(part)
    })
  } else await db.transaction((tx) => Promise.all(parts.map((part) => tx.execute(part))))
}

function checkWrites(
  writes: readonly WriteRecord[],
  stored: ReadonlyMap<number, { n: number; parts: number }>,
): AccountingReport {
  const violations: string[] = []
  const counts = { acknowledged: 0, not_applied: 0, unknown: 0 }
  let unknownApplied = 0
  for (const { id, rows, outcome } of writes) {
    counts[outcome] += 1
    const { n, parts } = stored.get(id) ?? { n: 0, parts: 0 }
    if (n > parts) violations.push(`${id}: ${n} rows for ${parts} parts, so something was executed twice`)
    else if (n !== 0 && n !== rows) violations.push(`${id}: torn, ${n} of ${rows} rows`)
    else if (outcome === 'acknowledged' && n === 0) violations.push(`${id}: acknowledged, but missing`)
    else if (outcome === 'not_applied' && n > 0)
      violations.push(`${id}: reported as not applied, but present`)
    if (outcome === 'unknown' && n > 0) unknownApplied += 1
  }
  return {
    writes: writes.length,
    acknowledged: counts.acknowledged,
    notApplied: counts.not_applied,
    unknown: counts.unknown,
    unknownApplied,
    violations,
  }
}
