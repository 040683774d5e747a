import { BatonDialect, batch } from '@batonsql/kysely-dialect'
import { type Generated, Kysely, sql } from 'kysely'
import { type MigrationProvider, Migrator } from 'kysely/migration'
import { expect, test } from 'vitest'
import { requireTursodb, startTursodb } from '../support/tursodb.ts'

requireTursodb()

interface Database {
  person: { id: Generated<number>; 'first "name"': string }
}

async function openServer() {
  const server = await startTursodb()
  const db = new Kysely<Database>({ dialect: new BatonDialect({ url: server.url }) })
  await db.schema
    .createTable('person')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('first "name"', 'text', (column) => column.notNull().unique())
    .execute()
  return { db, server }
}

test.each(['wal', 'mvcc'])('introspection hides the tables of the engine: journal mode %s', async (mode) => {
  const { db } = await openServer()
  await sql.raw(`pragma journal_mode = ${mode}`).execute(db)
  await sql`create table counted (id integer primary key autoincrement)`.execute(db)
  await sql`create view names as select id from person`.execute(db)
  const { rows } = await sql<{ name: string }>`select name from sqlite_schema where type = 'table'`.execute(
    db,
  )
  expect(rows.some(({ name }) => name === '__turso_internal_mvcc_meta')).toBe(mode === 'mvcc')
  const tables = await db.introspection.getTables()
  expect(tables.map(({ name, isView }) => [name, isView])).toEqual([
    ['counted', false],
    ['names', true],
    ['person', false],
  ])
  expect(
    tables[2]?.columns.map(({ name, isNullable, isAutoIncrementing }) => [
      name,
      isNullable,
      isAutoIncrementing,
    ]),
  ).toEqual([
    ['id', true, true],
    ['first "name"', false, false],
  ])
  await db.destroy()
})

test('RETURNING returns rows with the names of the columns', async () => {
  const { db } = await openServer()
  const ada = { 'first "name"': 'Ada' }
  expect(await db.insertInto('person').values(ada).returning(['id', 'first "name"']).execute()).toEqual([
    { id: 1, 'first "name"': 'Ada' },
  ])
  expect(await db.updateTable('person').set({ id: 2 }).returningAll().execute()).toEqual([{ id: 2, ...ada }])
  const [removed, none] = await batch(db, [
    db.deleteFrom('person').returning(['person.id', 'person.first "name" as name']),
    db.selectFrom('person').selectAll(),
  ])
  expect([removed, none]).toEqual([[{ id: 2, name: 'Ada' }], []])
  await db.destroy()
})

test('supports the Migrator, transactions and their errors', async () => {
  const { db, server } = await openServer()
  const provider: MigrationProvider = {
    getMigrations: async () => ({
      one: {
        up: (kysely: Kysely<unknown>) =>
          kysely.schema.createTable('added').addColumn('id', 'integer').execute(),
      },
    }),
  }
  const migrate = () => new Migrator({ db, provider }).migrateToLatest()
  const [first, second] = await Promise.all([migrate(), migrate()])
  expect([first.error, second.error]).toEqual([undefined, undefined])
  expect([...(first.results ?? []), ...(second.results ?? [])].map(({ status }) => status)).toEqual([
    'Success',
  ])
  const ada = { id: 1, 'first "name"': 'Ada' }
  const failedTransaction = db.transaction().execute(async (trx) => {
    await trx.insertInto('person').values(ada).execute()
    await trx
      .insertInto('person')
      .values({ ...ada, id: 2 })
      .execute()
  })
  await expect(failedTransaction).rejects.toMatchObject({
    code: 'SQLITE_CONSTRAINT',
    constraint: { kind: 'unique', table: 'person', columns: ['first "name"'] },
  })
  const read = db.transaction().setAccessMode('read only')
  expect(await read.execute((trx) => trx.selectFrom('person').selectAll().execute())).toEqual([])
  expect(server.streamCount).toBe(0)
  await db.destroy()
})
