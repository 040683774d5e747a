import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver'
import { sql } from 'drizzle-orm'
import { DrizzleQueryError } from 'drizzle-orm/errors'
import { sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openTestServer, type TestDatabase, type TestServer } from '../../support/test-server.ts'

// These tests run on all versions of Drizzle.

const items = sqliteTable('items', { name: text().unique() })
/** What happens to a request: it passes, does not arrive, loses its response, or receives this response. */
type Fault = 'passes' | 'does not arrive' | 'loses its response' | Response

let server: TestServer
let database: TestDatabase
let db: BatonDatabase
let faults: Fault[] = []

// each test has its own database, because an interrupted transaction holds the write lock for a while
beforeEach(async () => {
  server ??= await openTestServer()
  database = await server.createDatabase()
  db = drizzle({
    connection: {
      ...database.config,
      async fetch(input, init) {
        const fault = faults.shift() ?? 'passes'
        if (fault === 'does not arrive') throw new TypeError('fetch failed')
        if (fault instanceof Response) return fault
        const response = await fetch(input, init)
        if (fault === 'passes') return response
        await response.text()
        throw new TypeError('fetch failed')
      },
    },
  })
  await db.run(sql`create table items (name text unique)`)
  faults = []
})
afterEach(() => db.$client.close())
const readNames = async (): Promise<unknown[]> => {
  const rows = await db.select().from(items).orderBy(items.name)
  return rows.map(({ name }) => name)
}

test.each<[number, string, string]>([
  [401, '{"error":"no such token"}', 'no such token'],
  [403, 'blocked by the proxy', 'blocked by the proxy'],
  [500, '', '500'],
])(
  'HTTP %i is a DrizzleQueryError with status and text, outside and inside a transaction',
  async (status, body, text) => {
    const cause = { name: 'HttpError', status, message: expect.stringContaining(text) as string }
    // a request that failed with 500 may have run; without its COMMIT, no part of a transaction is kept
    const inside = status === 500 ? { code: 'TRANSACTION_LOST', outcome: 'not_applied', cause } : cause
    const attempts: [() => Promise<unknown>, object][] = [
      [async () => await db.insert(items).values({ name: 'a' }), cause],
      [async () => await db.batch([db.insert(items).values({ name: 'a' })]), cause],
      [() => db.transaction(async (tx) => await tx.insert(items).values({ name: 'a' })), inside],
    ]
    for (const [attempt, expected] of attempts) {
      faults = [new Response(body, { status })]
      const error: unknown = await attempt().then(
        () => null,
        (reason: unknown) => reason,
      )
      expect(error).toBeInstanceOf(DrizzleQueryError)
      expect(error).toMatchObject({ cause: expected })
    }
    expect(await readNames()).toEqual([])
  },
)

test('a token function that throws undefined is a DrizzleQueryError, of a batch too', async () => {
  const withoutToken = drizzle({ connection: { ...database.config, authToken: () => Promise.reject() } })
  const insert = withoutToken.insert(items).values({ name: 'a' })
  await expect(insert).rejects.toBeInstanceOf(DrizzleQueryError)
  await expect(withoutToken.batch([insert])).rejects.toBeInstanceOf(DrizzleQueryError)
  await withoutToken.$client.close()
})

test('a request that times out is aborted', async () => {
  const shortTimeout = drizzle({
    connection: {
      ...database.config,
      requestTimeoutMs: 50,
      maxRetries: 0,
      fetch: (_, init) =>
        new Promise((_resolve, reject) => {
          init?.signal?.addEventListener('abort', () => reject(init.signal?.reason as Error))
        }),
    },
  })
  const timeout = { name: 'TransportError', code: 'TIMEOUT' }
  const insert = (executor: Pick<BatonDatabase, 'insert'>) => executor.insert(items).values({ name: 'a' })
  await expect(insert(shortTimeout)).rejects.toMatchObject({ cause: timeout })
  await expect(shortTimeout.batch([insert(shortTimeout)])).rejects.toMatchObject({ cause: timeout })
  await expect(shortTimeout.transaction(insert)).rejects.toMatchObject({
    cause: { code: 'TRANSACTION_LOST', cause: timeout },
  })
  await shortTimeout.$client.close()
})

test('a transaction that takes more than 5 s while another writer waits is lost, and rejects with the user’s error (takes 6 s)', async () => {
  const ownError = new Error('own error')
  // otherwise, the client would end the transaction slightly earlier
  const withoutTimeout = (): BatonDatabase =>
    drizzle({ connection: { ...database.config, transactionTimeoutMs: Infinity } })
  const [db1, db2] = [withoutTimeout(), withoutTimeout()]
  let resolveBegun = (): void => {}
  const begun = new Promise<void>((resolve) => {
    resolveBegun = resolve
  })
  const longTransaction = db1.transaction(async (tx) => {
    await tx.insert(items).values({ name: 'a' })
    resolveBegun()
    await new Promise((resolve) => setTimeout(resolve, 5_700))
    await expect(tx.insert(items).values({ name: 'b' })).rejects.toMatchObject({
      cause: { name: 'StreamError' },
    })
    throw ownError
  })
  await begun
  await Promise.all([
    expect(longTransaction).rejects.toBe(ownError),
    db2.insert(items).values({ name: 'the other' }),
  ])
  expect(await readNames()).toEqual(['the other'])
  await Promise.all([db1.$client.close(), db2.$client.close()])
})
