import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver'
import { sql } from 'drizzle-orm'
import { sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openTestServer, type TestDatabase, type TestServer } from '../targets/test-server.ts'

const items = sqliteTable('items', { name: text().unique() })
/** What becomes of the next requests: they pass, do not arrive, or lose their answer. */
type Fate = 'passes' | 'does not arrive' | 'loses its answer'

let server: TestServer
let database: TestDatabase
let db: BatonDatabase
let fates: Fate[] = []

// a database of its own for each: a transaction that was cut off holds the write slot for a while
beforeEach(async () => {
  server ??= await openTestServer()
  database = await server.createDatabase()
  db = drizzle({
    connection: {
      url: database.url,
      authToken: database.authToken,
      async fetch(input, init) {
        const fate = fates.shift() ?? 'passes'
        if (fate === 'does not arrive') throw new TypeError('fetch failed')
        const response = await fetch(input, init)
        if (fate === 'passes') return response
        await response.text()
        throw new TypeError('fetch failed')
      },
    },
  })
  await db.run(sql`create table items (name text unique)`)
  fates = []
})
afterEach(() => db.$client.close())
const names = async (): Promise<unknown[]> => {
  const rows = await db.select().from(items).orderBy(items.name)
  return rows.map(({ name }) => name)
}

test('a commit whose answer was lost is reported as unknown, not as rolled back', async () => {
  fates = ['passes', 'loses its answer']
  const attempt = db.transaction((tx) => tx.insert(items).values({ name: 'a' }))
  await expect(attempt).rejects.toMatchObject({ code: 'NETWORK', outcome: 'unknown' })
  expect(await names()).toEqual(['a'])
})

test('a statement that was lost ends the transaction; what comes after is refused and the user’s error stays', async () => {
  const mine = new Error('mine')
  fates = ['passes', 'loses its answer']
  const attempt = db.transaction(async (tx) => {
    await tx.insert(items).values({ name: 'a' })
    await expect(tx.insert(items).values({ name: 'b' })).rejects.toMatchObject({
      cause: { code: 'TRANSACTION_LOST' },
    })
    await expect(tx.transaction((inner) => inner.insert(items).values({ name: 'c' }))).rejects.toMatchObject({
      cause: { code: 'TRANSACTION_LOST' },
    })
    throw mine
  })
  await expect(attempt).rejects.toBe(mine)
  expect(await names()).toEqual([])
})

test('a rollback that does not arrive does not take the place of the user’s error', async () => {
  const mine = new Error('mine')
  fates = ['passes', 'does not arrive']
  const attempt = db.transaction(async (tx) => {
    await tx.insert(items).values({ name: 'a' })
    throw mine
  })
  await expect(attempt).rejects.toBe(mine)
  expect(await names()).toEqual([])
})

test('a batch whose answer was lost is not repeated', async () => {
  fates = ['loses its answer']
  const attempt = db.batch([db.insert(items).values({ name: 'a' }), db.insert(items).values({ name: 'b' })])
  await expect(attempt).rejects.toMatchObject({ cause: { code: 'NETWORK', outcome: 'unknown' } })
  expect(await names()).toEqual(['a', 'b'])
})
