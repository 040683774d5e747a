import { drizzle } from '@batonsql/drizzle-driver/v1'
import { defineRelations, sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { afterAll, beforeAll, expect, expectTypeOf, test } from 'vitest'
import { openTestServer } from '../targets/test-server.ts'

// What is different from the versions before; the rest is in end-to-end/drizzle-transactions.test.ts, which runs on 1.0, too.

const items = sqliteTable('items', { id: integer().primaryKey(), name: text().notNull().unique() })
const connect = (config: { url: string; authToken: string | undefined }) =>
  drizzle({ connection: config, relations: defineRelations({ items }) })
let db: ReturnType<typeof connect>

beforeAll(async () => {
  const server = await openTestServer()
  db = connect((await server.createDatabase()).config)
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

test('relational queries in transactions and batches', async () => {
  const found = await db.transaction(async (tx) => {
    await tx.insert(items).values({ id: 1, name: 'a' })
    const [first] = await tx.batch([tx.query.items.findFirst({ columns: { name: true } })])
    expectTypeOf(first).toEqualTypeOf<{ name: string } | undefined>()
    return { first, all: await tx.query.items.findMany({ where: { id: 1 } }) }
  })
  expect(found).toEqual({ first: { name: 'a' }, all: [{ id: 1, name: 'a' }] })
})
