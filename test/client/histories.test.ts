import { createClient } from '@batonsql/core'
import { expect, test } from 'vitest'
import { randomFault } from '../generated/faults/accounting.ts'
import { runListAppend } from '../generated/faults/list-append.ts'
import { coreLists, drizzleLists, kyselyLists, optimisticLists } from '../generated/faults/list-clients.ts'
import { openFaultyDatabase, runSize } from '../support/faulty-database.ts'
import { SEED, seeded } from '../support/random.ts'

// These are the short versions. The long versions are run by npm test -- faults.
const appendCount = runSize('FAULT_APPENDS', 80)
const timeout = runSize('FAULT_TIMEOUT_MS', 90_000)

const { database, direct, proxy } = await openFaultyDatabase()

test.each([
  ['core', coreLists],
  ['Kysely', kyselyLists],
  ['Drizzle', drizzleLists],
  ['optimistic transactions', optimisticLists],
])(
  `appends to lists through %s produce a history without cycles (TEST_SEED=${SEED})`,
  { timeout },
  async (library, listOf) => {
    const random = seeded(SEED)
    proxy.next = (body) => randomFault(random, body, true)
    await using first = createClient({ ...database.config, url: proxy.url })
    await using second = createClient({ ...database.config, url: proxy.url })
    const clients = [first, second].map((client) => ({ client, list: listOf(client) }))
    const report = await runListAppend(clients, direct, appendCount, seeded(SEED))
    console.log(
      `lists through ${library}: ${JSON.stringify({ ...report, violations: report.violations.length, seed: SEED })}`,
    )
    expect(report.violations).toEqual([])
    expect(report.cycles).toBe(0)
    expect(report.committed).toBeGreaterThan(0)
    expect(report.edges.rw).toBeGreaterThan(0)
  },
)
