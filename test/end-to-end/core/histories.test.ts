import { createClient } from '@batonsql/core'
import { describe, expect, test } from 'vitest'
import { randomFault } from '../../faults/accounting.ts'
import { openFaultyDatabase, seed, sizeOf } from '../../faults/faulty-database.ts'
import { runListAppend } from '../../faults/list-append.ts'
import { drizzleLists, kyselyLists, ofCore } from '../../faults/list-clients.ts'
import { seeded } from '../../faults/random.ts'
import { structureTransactions } from '../../faults/structured-transactions.ts'

// The short forms. The long ones: npm run test:faults.
const histories = sizeOf('FAULT_HISTORIES', 60)
const appends = sizeOf('FAULT_APPENDS', 200)
const timeout = sizeOf('FAULT_TIMEOUT_MS', 90_000)

const { database, direct, proxy } = await openFaultyDatabase()

describe.each([
  ['/v3', false],
  ['/v2', true],
])('on %s', (_, hidesV3) => {
  test(`savepoints in and beside each other, calls that nobody awaits, handles that are over: nothing is torn (seed ${seed})`, {
    timeout,
  }, async () => {
    proxy.hidesV3 = hidesV3
    await using db = createClient({ ...database.config, url: proxy.url })
    const account = await structureTransactions(db, direct, histories, seeded(seed), !hidesV3)
    console.log(`structured: ${JSON.stringify({ ...account, mistakes: account.mistakes.length, seed })}`)
    expect(account.mistakes).toEqual([])
    // the test is about something
    expect(account.committed).toBeGreaterThan(histories / 10)
    expect(account.savepoints).toBeGreaterThan(histories / 2)
    // too seldom for the short form: some seeds have none
    if (histories >= 1_000) expect(account.misuses).toBeGreaterThan(0)
  })
})

test.each([
  ['core', ofCore],
  ['Kysely', kyselyLists],
  ['Drizzle', drizzleLists],
])(
  `lists that are appended to: a history without circles, through %s (seed ${seed})`,
  { timeout },
  async (through, of) => {
    const random = seeded(seed)
    proxy.next = (body) => randomFault(random, body, true)
    await using first = createClient({ ...database.config, url: proxy.url })
    await using second = createClient({ ...database.config, url: proxy.url })
    const clients = [first, second].map((client) => ({ client, list: of(client) }))
    const report = await runListAppend(clients, direct, appends, seeded(seed))
    console.log(
      `lists through ${through}: ${JSON.stringify({ ...report, mistakes: report.mistakes.length, seed })}`,
    )
    expect(report.mistakes).toEqual([])
    expect(report.cycles).toBe(0)
    expect(report.committed).toBeGreaterThan(appends / 3)
    expect(report.edges.rw).toBeGreaterThan(0)
  },
)
