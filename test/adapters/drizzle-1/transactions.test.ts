import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver/v1'
import { sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'
import { startTursodb } from '../../support/tursodb.ts'
import { tursodbProblem } from '../../support/tursodb-server.ts'

// Differences from earlier versions. The other tests are in drizzle/transactions.test.ts, which also runs on 1.0.

const items = sqliteTable('items', { id: integer().primaryKey(), name: text().notNull().unique() })
let db: BatonDatabase

beforeAll(async () => {
  const server = await openTestServer()
  db = drizzle({ connection: (await server.createDatabase()).config })
  await db.run(sql`create table items (id integer primary key, name text not null unique)`)
})
afterAll(() => db.$client.close())

const insertConcurrently = (executor: BatonDatabase): Promise<unknown> =>
  executor.transaction((tx) => tx.insert(items).values({ name: 'a' }), { behavior: 'concurrent' })

test('libsql-server rejects concurrent transactions', async () => {
  await expect(insertConcurrently(db)).rejects.toMatchObject({
    cause: {
      message: expect.stringMatching(/^mode 'concurrent' needs Turso's engine: SQL string could not/),
    },
  })
  const batch = db.batch([db.select().from(items)], { behavior: 'concurrent' })
  await expect(batch).rejects.toMatchObject({
    cause: { message: expect.stringMatching(/^mode 'concurrent' needs/) },
  })
  expect(await db.select().from(items)).toEqual([])
})

test('Turso’s engine runs concurrent transactions, and keeps one of two that conflict', async (context) => {
  if (tursodbProblem !== null) context.skip(tursodbProblem)
  const turso = drizzle((await startTursodb()).url)
  await turso.run(sql`pragma journal_mode = mvcc`)
  await turso.run(sql`create table items (id integer primary key, name text not null)`)
  await turso.insert(items).values([{ name: 'one' }, { name: 'two' }])
  const rename = (name: string, runInside = async (): Promise<unknown> => null): Promise<void> =>
    turso.transaction(
      async (tx) => {
        await tx.update(items).set({ name }).where(sql`id = 1`)
        await runInside()
      },
      { behavior: 'concurrent' },
    )
  await rename('first', () => turso.update(items).set({ name: 'second' }).where(sql`id = 2`))
  expect(await turso.select().from(items)).toMatchObject([{ name: 'first' }, { name: 'second' }])
  const conflict = rename('kept', () => rename('lost'))
  await expect(conflict).rejects.toMatchObject({ cause: { code: 'SQLITE_BUSY', outcome: 'not_applied' } })
  expect(await turso.select().from(items)).toMatchObject([{ name: 'first' }, { name: 'second' }])
  await turso.$client.close()
})

test('errors of a batch show parameters only if paramsInErrors is set', async () => {
  const twice = [db.insert(items).values({ name: 'a' }), db.insert(items).values({ name: 'a' })]
  await expect(db.batch(twice)).rejects.toMatchObject({ params: undefined, cause: { statementIndex: 1 } })
})
