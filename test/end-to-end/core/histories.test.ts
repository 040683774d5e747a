import { createClient } from '@batonsql/core'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { randomFault } from '../../faults/accounting.ts'
import { FaultProxy, NO_FAULT } from '../../faults/fault-proxy.ts'
import { runListAppend } from '../../faults/list-append.ts'
import { drizzleLists, kyselyLists, ofCore } from '../../faults/list-clients.ts'
import { seeded } from '../../faults/random.ts'
import { structureTransactions } from '../../faults/structured-transactions.ts'
import { openTestServer } from '../../targets/test-server.ts'

// The short forms. The long ones: npm run test:faults. A seed repeats a run: FAULT_SEED=1.
const seed = Number(process.env['FAULT_SEED'] ?? Date.now() % 2 ** 31)
const histories = Number(process.env['FAULT_HISTORIES'] ?? 60)
const appends = Number(process.env['FAULT_APPENDS'] ?? 200)
const timeout = Number(process.env['FAULT_TIMEOUT_MS'] ?? 90_000)

const server = await openTestServer()
const database = await server.createDatabase()
const direct = createClient(database.config)
const proxy = await FaultProxy.start(database.url)
afterAll(async () => {
  await direct.close()
  await proxy.close()
})
beforeEach(() => {
  proxy.next = () => NO_FAULT
  proxy.hidesV3 = false
})

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
    expect(account.misuses).toBeGreaterThan(0)
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
