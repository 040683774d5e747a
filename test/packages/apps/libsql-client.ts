import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import * as client from '@libsql/client'
import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/libsql'
import { blob, integer, real, sqliteTable, text } from 'drizzle-orm/sqlite-core'

// An application written for @libsql/client, which @batonsql/libsql-client replaces.

const person = sqliteTable('person', {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
  score: real(),
  data: blob({ mode: 'buffer' }),
})

async function main(): Promise<void> {
  const { DATABASE_URL: url = '' } = process.env
  const db = drizzle({ connection: { url }, schema: { person } })
  await db.$client.executeMultiple(`drop table if exists person;
    create table person (id integer primary key autoincrement, name text not null unique, score real, data blob)`)
  await db.insert(person).values([{ name: 'Ada', score: 1, data: Buffer.from([1]) }, { name: 'Bob' }])
  await assert.rejects(
    db.insert(person).values({ name: 'Ada' }),
    ({ cause }: { cause: client.LibsqlError }) => {
      assert(cause instanceof client.LibsqlError)
      assert.deepEqual([cause.code, cause.rawCode], ['SQLITE_CONSTRAINT', 2067])
      return true
    },
  )
  await db.transaction(async (tx) => {
    await tx.update(person).set({ score: 2 }).where(eq(person.name, 'Ada'))
    await tx.transaction(async (inner) => {
      await inner.insert(person).values({ name: 'Cid' })
    })
  })
  await assert.rejects(
    db.transaction(async (tx) => {
      await tx.delete(person)
      tx.rollback()
    }),
  )
  const [rows, counts] = await db.batch([
    db.select().from(person).orderBy(person.id),
    db.select({ n: sql<number>`count(*)` }).from(person),
  ])
  assert.deepEqual(
    rows.map(({ name, score, data }) => [name, score, data && [...data]]),
    [
      ['Ada', 2, [1]],
      ['Bob', null, null],
      ['Cid', null, null],
    ],
  )
  assert.deepEqual(counts, [{ n: 3 }])
  assert.equal((await db.query.person.findFirst({ where: eq(person.name, 'Bob') }))?.name, 'Bob')

  // CommonJS, and the export that only this package has
  const commonJsModule = createRequire(import.meta.url)('@libsql/client') as typeof client
  assert.equal(commonJsModule.createClient, client.createClient)
  const { baton } = client as unknown as {
    baton(client: unknown): { execute(sql: string): Promise<{ rows: object[] }> }
  }
  assert.deepEqual((await baton(db.$client).execute('select count(*) as n from person')).rows, [{ n: 3 }])

  // files are handled by the original
  const file = client.createClient({ url: ':memory:' })
  await file.batch(['create table t (a)', "insert into t values ('x')"], 'write')
  assert.deepEqual(
    [...(await file.execute('select a from t')).rows].map(({ a }) => a),
    ['x'],
  )
  assert.equal(file.protocol, 'file')
  file.close()
  db.$client.close()
}

await main()
console.log('libsql-client: ok')
