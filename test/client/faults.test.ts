import { createClient } from '@batonsql/core'
import { beforeEach, describe, expect, test } from 'vitest'
import { randomFault, runAccounting } from '../generated/faults/accounting.ts'
import { runNestedTransactions } from '../generated/faults/nested-transactions.ts'
import { findTornTransactions } from '../generated/faults/torn-transactions.ts'
import { type Fault, NO_FAULT } from '../support/fault-proxy.ts'
import { openFaultyDatabase, runSize } from '../support/faulty-database.ts'
import { ENDLESS_READ } from '../support/fixtures.ts'
import { pick, SEED, seeded } from '../support/random.ts'

// These are the short versions. The long versions are run by npm test -- faults.
const transactionCount = runSize('FAULT_TRANSACTIONS', 60)
const writeCount = runSize('FAULT_WRITES', 200)
// losing a response inside a transaction blocks all writers for 5 s, so these responses are lost only if FAULT_ALL is set
const keepsTransactions = process.env['FAULT_ALL'] === undefined
const timeout = runSize('FAULT_TIMEOUT_MS', 60_000)

const { database, direct, proxy } = await openFaultyDatabase()

describe.each([
  ['/v3', false],
  ['/v2', true],
])('on %s', (_, hidesV3) => {
  beforeEach(() => {
    proxy.hidesV3 = hidesV3
  })

  test(`no transaction is torn when the server ends it (TEST_SEED=${SEED})`, { timeout }, async () => {
    await using db = createClient({ ...database.config, url: proxy.url })
    const report = await findTornTransactions(db, direct, transactionCount, seeded(SEED))
    console.log(`torn transactions: ${JSON.stringify({ ...report, leaks: report.leaks.length, seed: SEED })}`)
    expect(report.leaks).toEqual([])
    // both cases occur with any seed
    expect(report.endedByServer).toBeGreaterThan(0)
    expect(report.committed).toBeGreaterThan(0)
  })

  test(`no transaction is torn with savepoints, batches, cursors and aborted calls (TEST_SEED=${SEED})`, {
    timeout,
  }, async () => {
    await using db = createClient({ ...database.config, url: proxy.url })
    const report = await runNestedTransactions(db, direct, transactionCount, seeded(SEED), !hidesV3)
    console.log(
      `nested transactions: ${JSON.stringify({ ...report, violations: report.violations.length, seed: SEED })}`,
    )
    expect(report.violations).toEqual([])
    expect(report.committed).toBeGreaterThan(0)
  })

  test(`no transaction is torn when requests fail as well (TEST_SEED=${SEED})`, { timeout }, async () => {
    const random = seeded(SEED + 1)
    proxy.next = (body) => randomFault(random, body, keepsTransactions)
    await using db = createClient({ ...database.config, url: proxy.url })
    const report = await findTornTransactions(db, direct, transactionCount, random)
    expect(report.leaks).toEqual([])
  })

  test(`every write is accounted for with one request in ten failing (TEST_SEED=${SEED})`, {
    timeout,
  }, async () => {
    const random = seeded(SEED + 2)
    proxy.next = (body) => randomFault(random, body, keepsTransactions)
    await using db = createClient({ ...database.config, url: proxy.url, concurrency: 16 })
    const report = await runAccounting(db, direct, writeCount, 16, random)
    console.log(
      `accounting: ${JSON.stringify({ ...report, violations: report.violations.length, seed: SEED })}`,
    )
    expect(report.violations).toEqual([])
    expect(report.acknowledged).toBeGreaterThan(0)
    expect(report.unknown).toBeGreaterThan(0)
  })
})

describe('one fault at a time', () => {
  const lostResponseFaults: readonly Fault[] = [
    { kind: 'drop-after' },
    { kind: 'truncate' },
    { kind: 'status-after', status: 504 },
  ]

  test.each(lostResponseFaults)(
    'a commit whose response is lost through $kind has an unknown outcome, and was applied',
    async (fault) => {
      await direct.batch(['drop table if exists one', 'create table one (a)'])
      proxy.next = (body) => (body.includes('COMMIT') ? fault : NO_FAULT)
      await using db = createClient({ ...database.config, url: proxy.url })
      await expect(db.transaction((tx) => tx.execute('insert into one values (1)'))).rejects.toMatchObject({
        outcome: 'unknown',
      })
      expect((await direct.execute('select a from one')).rows).toEqual([{ a: 1 }])
    },
  )

  test.each(lostResponseFaults)(
    'a write whose response is lost through $kind has an unknown outcome, and is not retried',
    async (fault) => {
      await direct.batch(['drop table if exists one', 'create table one (a)'])
      proxy.next = () => fault
      await using db = createClient({ ...database.config, url: proxy.url })
      await expect(db.execute('insert into one values (1)')).rejects.toMatchObject({ outcome: 'unknown' })
      expect((await direct.execute('select a from one')).rows).toEqual([{ a: 1 }])
    },
  )

  test('a read succeeds despite faults', async () => {
    const random = seeded(SEED)
    let faults = 0
    proxy.next = () =>
      faults++ % 7 === 0 ? pick(random, [...lostResponseFaults, { kind: 'drop-before' }]) : NO_FAULT
    await using db = createClient({ ...database.config, url: proxy.url })
    for (let i = 0; i < 20; i++) expect((await db.execute('select ? as i', [i])).rows).toEqual([{ i }])
  })

  test('a request that a proxy sends twice is rejected the second time', async () => {
    await direct.batch(['drop table if exists one', 'create table one (a)'])
    const bodies: string[] = []
    proxy.next = (body) => {
      bodies.push(body)
      return NO_FAULT
    }
    await using db = createClient({ ...database.config, url: proxy.url })
    await db.transaction(async (tx) => {
      await tx.execute('insert into one values (1)')
      await tx.execute('insert into one values (2)')
      const repeated = await fetch(`${proxy.url}/v3/pipeline`, {
        method: 'POST',
        body: bodies.at(-1) as string,
      })
      expect([repeated.status, await repeated.text()]).toEqual([
        400,
        'Received a baton that has already been used',
      ])
    })
    expect((await direct.execute('select count(*) as n from one')).rows).toEqual([{ n: 2 }])
  })

  test('a batch whose client disconnects is atomic', async () => {
    await direct.batch(['drop table if exists one', 'create table one (a)'])
    const endless = `insert into one ${ENDLESS_READ}`
    const batch = direct.batch(['insert into one values (1)', endless, 'insert into one values (3)'], {
      timeoutMs: 60,
    })
    await expect(batch).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
    // the server stops the statement when the connection is lost, and continues with the remaining steps
    await direct.execute('insert into one values (100)')
    expect((await direct.execute('select a from one')).rows).toEqual([{ a: 100 }])
  })
})
