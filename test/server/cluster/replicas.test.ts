import { type Client, createClient, readRows } from '@batonsql/core'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { runAccounting } from '../../generated/faults/accounting.ts'
import { runListAppend } from '../../generated/faults/list-append.ts'
import { coreLists, drizzleLists, kyselyLists, optimisticLists } from '../../generated/faults/list-clients.ts'
import { findTornTransactions } from '../../generated/faults/torn-transactions.ts'
import { type Cluster, startCluster } from '../../support/cluster.ts'
import { FaultProxy, NO_FAULT } from '../../support/fault-proxy.ts'
import { SEED, seeded } from '../../support/random.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { waitFor } from '../../support/wait-for.ts'

// Short runs by default; npm test -- faults sets longer ones.
const pairCount = Number(process.env['FAULT_PAIRS'] ?? 300)
const transactionCount = Number(process.env['FAULT_TRANSACTIONS'] ?? 100)
const appendCount = Number(process.env['FAULT_APPENDS'] ?? 200)
const writeCount = Number(process.env['FAULT_WRITES'] ?? 300)
const limits = {
  ...(process.env['FAULT_TIMEOUT_MS'] !== undefined && { timeout: Number(process.env['FAULT_TIMEOUT_MS']) }),
  // a primary that no longer grants its write lock (docs/self-hosting.md) proves nothing, so the test is
  // repeated
  retry: { count: 1, condition: /no response from|timed out/ },
}

const directory = createTemporaryDirectory(afterAll)
let cluster: Cluster
let primary: Client
/** One client for each replica. */
let replicas: [Client, Client]

beforeAll(async () => {
  cluster = await startCluster(directory, 2)
  primary = createClient({ url: cluster.primaryUrl })
  const [firstUrl, secondUrl] = cluster.replicaUrls as [string, string]
  replicas = [createClient({ url: firstUrl }), createClient({ url: secondUrl })]
  // a replica that has never been queried has no index to wait for
  for (const replica of replicas) await replica.execute('select 1')
})
beforeEach(async () => {
  if (!(await isStuck())) return
  console.log('the primary no longer granted its write lock, and was restarted')
  await cluster.killPrimary()
  await cluster.restartPrimary()
})
afterAll(async () => {
  await Promise.all([primary, ...replicas].map((db) => db.close()))
  await cluster[Symbol.asyncDispose]()
})

/** Whether a writer cannot acquire the lock, although a transaction can hold it for at most 5 s. */
async function isStuck(): Promise<boolean> {
  const requests = ['BEGIN IMMEDIATE', 'ROLLBACK'].map((sql) => ({ type: 'execute', stmt: { sql } }))
  const body = JSON.stringify({ requests: [...requests, { type: 'close' }] })
  const signal = AbortSignal.timeout(20_000)
  try {
    await (await fetch(`${cluster.primaryUrl}/v2/pipeline`, { method: 'POST', body, signal })).text()
    return false
  } catch {
    return signal.aborted
  }
}

let lastProgram: Promise<unknown> = Promise.resolve()

/** Runs a program after the one of an earlier attempt has ended: that one continues after the time limit of its test. */
async function runAlone<T>(run: () => Promise<T>): Promise<T> {
  await lastProgram.catch(() => {})
  const program = run()
  lastProgram = program
  return await program
}

/** Ways to write a number. */
const WRITES: readonly ((db: Client, n: number) => Promise<unknown>)[] = [
  (db, n) => db.execute('insert into pair values (?)', [n]),
  (db, n) => db.batch([{ sql: 'insert into pair values (?)', args: [n] }, 'select 1']),
  (db, n) => db.transaction((tx) => tx.execute('insert into pair values (?)', [n])),
]
/** Ways to read the largest number. */
const READS: readonly ((db: Client) => Promise<unknown>)[] = [
  async (db) => (await db.execute('select max(a) as n from pair')).rows[0]?.['n'],
  async (db) => (await db.batch(['select max(a) as n from pair'], { mode: 'readonly' }))[0]?.rows[0]?.['n'],
  async (db) => (await db.batch(['select max(a) as n from pair']))[0]?.rows[0]?.['n'],
  (db) => db.transaction(async (tx) => (await tx.execute('select max(a) as n from pair')).rows[0]?.['n']),
  (db) =>
    db.transaction(async (tx) => (await tx.execute('select max(a) as n from pair')).rows[0]?.['n'], {
      mode: 'readonly',
    }),
  async (db) => {
    for await (const row of readRows(db, 'select max(a) as n from pair')) return row['n']
    return undefined
  },
]

describe('reads see earlier writes', () => {
  test('through the same replica, with every way to write and to read', limits, async () => {
    const [db] = replicas
    await db.batch(['drop table if exists pair', 'create table pair (a)'])
    const staleReads: string[] = []
    for (let n = 0; n < pairCount; n++) {
      const [write, read] = [n % WRITES.length, Math.floor(n / WRITES.length) % READS.length]
      await WRITES[write]?.(db, n)
      const maximum = await READS[read]?.(db)
      if (maximum !== n) staleReads.push(`write ${write}, read ${read}: ${String(maximum)} for ${n}`)
    }
    console.log(`replicas: ${pairCount} pairs, ${staleReads.length} stale`)
    expect(staleReads).toEqual([])
  })

  test('through another replica, given the replication index', limits, async () => {
    const [db] = replicas
    await db.batch(['drop table if exists pair', 'create table pair (a)'])
    const staleReads: number[] = []
    for (let n = 0; n < Math.min(pairCount, 1_000); n++) {
      await db.execute('insert into pair values (?)', [n])
      // as another process would
      await using secondClient = createClient({
        url: cluster.replicaUrls[1] as string,
        minReplicationIndex: db.replicationIndex as string,
      })
      const { rows } = await secondClient.execute('select max(a) as n from pair')
      if (rows[0]?.['n'] !== n) staleReads.push(n)
    }
    expect(staleReads).toEqual([])
  })

  test('only with the index: without it, some reads are stale', limits, async () => {
    const [writer] = replicas
    await using db = createClient({ url: cluster.replicaUrls[0] as string, readYourWrites: false })
    await writer.batch(['drop table if exists pair', 'create table pair (a)'])
    let staleReads = 0
    for (let n = 0; n < 300; n++) {
      await db.execute('insert into pair values (?)', [n])
      if ((await db.execute('select max(a) as n from pair')).rows[0]?.['n'] !== n) staleReads += 1
    }
    expect(db.replicationIndex).toBe(null)
    expect(staleReads).toBeGreaterThan(0)
  })
})

test.each([
  ['core', coreLists],
  ['optimistic transactions', optimisticLists],
  ['Kysely', kyselyLists],
  ['Drizzle', drizzleLists],
])(
  "appends through replicas keep each client's order and form no cycles: %s",
  limits,
  async (library, openList) => {
    const clients = replicas.map((client) => ({ client, list: openList(client) }))
    const report = await runAlone(() =>
      runListAppend(clients, primary, appendCount, seeded(SEED), { order: 'session' }),
    )
    console.log(`lists of replicas through ${library}: ${JSON.stringify({ ...report, seed: SEED })}`)
    expect(report.violations).toEqual([])
    expect(report.cycles).toBe(0)
    expect(report.committed).toBeGreaterThan(0)
  },
)

describe('an index that the database never reaches', () => {
  const UNREACHABLE_INDEX = '999999'
  /** Creates a client for a replica, and counts the client's requests. */
  const createCountingClient = (minReplicationIndex: string) => {
    const counts = { requests: 0 }
    const url = cluster.replicaUrls[0] as string
    const observe = (event: { type: string }) => event.type === 'request' && (counts.requests += 1)
    return Object.assign(createClient({ url, minReplicationIndex, observe }), { counts })
  }

  test.each([
    ['execute', READS[0]],
    ['a readonly batch', READS[1]],
    ['a batch', READS[2]],
    ['a transaction', READS[3]],
    ['a readonly transaction', READS[4]],
    ['a cursor', READS[5]],
  ] as const)('is dropped after a short wait: %s', async (_, read) => {
    await primary.batch(['drop table if exists pair', 'create table pair (a)', 'insert into pair values (7)'])
    await using db = createCountingClient(UNREACHABLE_INDEX)
    // within its time limit of 30 s
    expect(await read?.(db)).toBe(7)
    expect(Number(db.replicationIndex)).toBeLessThan(Number(UNREACHABLE_INDEX))
    db.counts.requests = 0
    expect(await read?.(db)).toBe(7)
    // the same number as from a client that does not wait for an index
    await using unindexedClient = createCountingClient('0')
    expect(await read?.(unindexedClient)).toBe(7)
    expect(db.counts).toEqual(unindexedClient.counts)
  })

  test('is checked once, and also reset for queued reads', async () => {
    await primary.batch(['drop table if exists pair', 'create table pair (a)', 'insert into pair values (7)'])
    let requests = 0
    await using db = createClient({
      url: cluster.replicaUrls[0] as string,
      minReplicationIndex: UNREACHABLE_INDEX,
      concurrency: 3,
      observe: (event) => event.type === 'request' && (requests += 1),
    })
    const results = await Promise.all(
      Array.from({ length: 30 }, () => db.execute('select max(a) as n from pair')),
    )
    expect(results.map(({ rows }) => rows[0]?.['n'])).toEqual(Array.from({ length: 30 }, () => 7))
    // each read once, those already sent twice, and the request for the index
    expect(requests).toBeLessThanOrEqual(30 + 3 + 1)
  })

  test('does not delay a write', async () => {
    await primary.batch(['drop table if exists pair', 'create table pair (a)'])
    await using db = createCountingClient(UNREACHABLE_INDEX)
    await db.execute('insert into pair values (1)')
    expect(db.counts.requests).toBe(1)
  })
})

test('after a restart of the primary, which counts from the beginning again, reads through a replica see new rows', async () => {
  await using db = createClient({ url: cluster.replicaUrls[0] as string })
  await db.batch(['drop table if exists pair', 'create table pair (a)'])
  for (let n = 0; n < 10; n++) await db.execute('insert into pair values (?)', [n])
  const index = Number(db.replicationIndex)
  expect((await db.execute('select count(*) as n from pair')).rows).toEqual([{ n: 10 }])
  await cluster.killPrimary()
  await cluster.restartPrimary()
  await primary.execute('insert into pair values (10)')
  // until the replica has noticed the restart, it responds with its old rows
  await waitFor(async () =>
    expect((await db.execute('select count(*) as n from pair')).rows).toEqual([{ n: 11 }]),
  )
  // with the same index, if the primary has recovered all but the last frame
  expect(Number(db.replicationIndex)).toBeLessThanOrEqual(index)
})

test('a slow read whose index the replica has reached neither fails nor is sent twice', async () => {
  const proxy = await FaultProxy.start(cluster.replicaUrls[0] as string)
  onTestFinished(() => proxy.close())
  const requested = Promise.withResolvers<void>()
  const bodies: string[] = []
  proxy.next = (body) => {
    bodies.push(body)
    // the request for the replica's index is sent after 2 s
    if (bodies.length === 3) requested.resolve()
    return body.includes('select 7') ? { kind: 'hold-response', until: requested.promise } : NO_FAULT
  }
  await using db = createClient({ url: proxy.url })
  await db.execute('select 1')
  expect((await db.execute('select 7 as n')).rows).toEqual([{ n: 7 }])
  expect(bodies).toHaveLength(3)
})

describe('writes through a replica', () => {
  test('fail with the constraint that was violated on the primary', async () => {
    const [db] = replicas
    await db.batch([
      'drop table if exists pair',
      'create table pair (a unique)',
      'insert into pair values (1)',
    ])
    await expect(db.execute('insert into pair values (1)')).rejects.toMatchObject({
      code: 'SQLITE_CONSTRAINT',
      extendedCode: 'SQLITE_CONSTRAINT_UNIQUE',
      message: 'UNIQUE constraint failed: pair.a',
      constraint: { kind: 'unique', table: 'pair', columns: ['a'] },
    })
    await expect(db.execute('insert into nowhere values (1)')).rejects.toMatchObject({
      code: 'SQLITE_UNKNOWN',
      outcome: 'not_applied',
      message: 'no such table: nowhere',
    })
    for (const [sql, message] of [
      ['insert into pair (b) values (1)', 'table pair has no column named b'],
      ['insert into pair values (no_such(1))', 'no such function: no_such'],
    ] as const)
      await expect(db.execute(sql)).rejects.toMatchObject({
        code: 'SQLITE_UNKNOWN',
        outcome: 'not_applied',
        message: expect.stringContaining(message) as string,
      })
  })

  test('fail while the primary blocks writes', async () => {
    const [db] = replicas
    await db.batch(['drop table if exists pair', 'create table pair (a)'])
    await cluster.blockWrites('not paid')
    await expect(db.execute('insert into pair values (1)')).rejects.toMatchObject({
      code: 'BLOCKED',
      message: 'Operation was blocked: not paid',
    })
    await cluster.blockWrites(null)
    await db.execute('insert into pair values (1)')
  })

  test('fail at their deadline with an unknown outcome while the primary is down; reads succeed', async () => {
    const [db] = replicas
    await db.batch(['drop table if exists pair', 'create table pair (a)'])
    // waits until the replica has the table
    await db.execute('select a from pair')
    await cluster.killPrimary()
    try {
      expect((await db.execute('select a from pair')).rows).toEqual([])
      await expect(db.execute('insert into pair values (1)', [], { timeoutMs: 500 })).rejects.toMatchObject({
        code: 'TIMEOUT',
        outcome: 'unknown',
      })
      await expect(
        db.transaction((tx) => tx.execute('insert into pair values (2)', [], { timeoutMs: 500 })),
      ).rejects.toMatchObject({ code: 'TRANSACTION_LOST', outcome: 'not_applied' })
    } finally {
      await cluster.restartPrimary()
    }
    await db.execute('insert into pair values (3)')
    const { rows } = await primary.execute('select a from pair')
    expect(rows).toContainEqual({ a: 3 })
    expect(rows).not.toContainEqual({ a: 2 })
  })

  test('fail in a transaction whose write lock another writer took over', async () => {
    const [db] = replicas
    // a separate table, because a replica may still send the previous write, which failed without a primary
    await db.batch(['drop table if exists taken', 'create table taken (a)'])
    await using withoutTimeout = createClient({
      url: cluster.replicaUrls[0] as string,
      transactionTimeoutMs: Infinity,
    })
    const lostTransaction = withoutTimeout.transaction(async (tx) => {
      await tx.execute('insert into taken values (1)')
      await new Promise((resolve) => setTimeout(resolve, 5_100))
      await primary.execute('insert into taken values (2)')
      await tx.execute('insert into taken values (3)').catch(() => {})
      await tx.execute('insert into taken values (4)').catch(() => {})
    })
    await expect(lostTransaction).rejects.toMatchObject({ name: 'StreamError', code: 'TRANSACTION_EXPIRED' })
    expect((await primary.execute('select a from taken')).rows).toEqual([{ a: 2 }])
  })
})

test(`no transaction through a replica is torn (TEST_SEED=${SEED})`, limits, async () => {
  const report = await runAlone(() =>
    findTornTransactions(replicas[1], primary, transactionCount, seeded(SEED)),
  )
  console.log(
    `torn transactions through a replica: ${JSON.stringify({ ...report, leaks: report.leaks.length, seed: SEED })}`,
  )
  expect(report.leaks).toEqual([])
  expect(report.committed).toBeGreaterThan(0)
})

test('a batch through a replica is atomic', async () => {
  const [db] = replicas
  await db.batch(['drop table if exists pair', 'create table pair (a unique)'])
  await expect(
    db.batch(['insert into pair values (1)', 'insert into pair values (1)']),
  ).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT', statementIndex: 1 })
  expect((await db.execute('select a from pair')).rows).toEqual([])
})

test(
  `every write is accounted for when the primary is killed and started again (TEST_SEED=${SEED})`,
  limits,
  async () => {
    await using db = createClient({
      url: cluster.replicaUrls[0] as string,
      requestTimeoutMs: 2_000,
      concurrency: 8,
    })
    const writing = new AbortController()
    let kills = 0
    const killer = (async () => {
      for (; !writing.signal.aborted; kills++) {
        await new Promise((resolve) => setTimeout(resolve, 150))
        await cluster.killPrimary()
        await new Promise((resolve) => setTimeout(resolve, 50))
        await cluster.restartPrimary()
      }
    })()
    const report = await runAlone(() =>
      runAccounting(db, primary, writeCount, 8, seeded(SEED), {
        beforeCounting: async () => {
          writing.abort()
          await killer
        },
      }),
    )
    console.log(
      `accounting with ${kills} restarts of the primary: ${JSON.stringify({ ...report, violations: report.violations.length, seed: SEED })}`,
    )
    expect(report.violations).toEqual([])
    expect(kills).toBeGreaterThan(0)
    expect(report.acknowledged).toBeGreaterThan(0)
  },
)
