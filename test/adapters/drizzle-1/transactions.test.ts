import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver/v1'
import { sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'

// What is different from the versions before; the rest is in drizzle/transactions.test.ts, which runs on 1.0, too.

const items = sqliteTable('items', { id: integer().primaryKey(), name: text().notNull().unique() })
let db: BatonDatabase

beforeAll(async () => {
  const server = await openTestServer()
  db = drizzle({ connection: (await server.createDatabase()).config })
  await db.run(sql`create table items (id integer primary key, name text not null unique)`)
})
afterAll(() => db.$client.close())

test('concurrent ones are refused', async () => {
  const attempt = db.transaction((tx) => tx.insert(items).values({ name: 'a' }), { behavior: 'concurrent' })
  await expect(attempt).rejects.toThrow('concurrent')
})

test('errors of a batch show parameters only when asked for', async () => {
  const twice = [db.insert(items).values({ name: 'a' }), db.insert(items).values({ name: 'a' })]
  await expect(db.batch(twice)).rejects.toMatchObject({ params: undefined, cause: { statementIndex: 1 } })
})
