import assert from 'node:assert/strict'
import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/libsql'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

const person = sqliteTable('person', {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
})
const db = drizzle({ connection: { url: process.env.DATABASE_URL } })
await db.run(sql`create table person (id integer primary key autoincrement, name text not null unique)`)
await db.insert(person).values([{ name: 'Ada' }, { name: 'Bob' }])
await db.transaction(async (tx) => {
  await tx.update(person).set({ name: 'Cid' }).where(eq(person.name, 'Bob'))
  await tx.transaction(async (inner) => void (await inner.insert(person).values({ name: 'Dan' })))
})
await assert.rejects(
  db.transaction(async (tx) => {
    await tx.delete(person)
    tx.rollback()
  }),
)
const [rows] = await db.batch([db.select().from(person).orderBy(person.id)])
assert.deepEqual(
  rows.map(({ name }) => name),
  ['Ada', 'Cid', 'Dan'],
)
db.$client.close()
console.log('drizzle-1: ok')
