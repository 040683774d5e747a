import assert from 'node:assert/strict'
import { BatonDialect, batch, isUniqueViolation, StreamError } from '@batonsql/kysely-dialect'
import { type Generated, Kysely, sql } from 'kysely'

// A small application that installs only the dialect and Kysely.

interface Database {
  shelf: { id: Generated<number>; label: string }
  book: { id: Generated<number>; shelf_id: number; title: string }
}

async function main(): Promise<void> {
  const { DATABASE_URL: url = '', DATABASE_TOKEN: authToken } = process.env
  const db = new Kysely<Database>({ dialect: new BatonDialect({ url, authToken }) })
  for (const table of ['book', 'shelf']) await db.schema.dropTable(table).ifExists().execute()
  await db.schema
    .createTable('shelf')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('label', 'text', (column) => column.notNull().unique())
    .execute()
  await db.schema
    .createTable('book')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('shelf_id', 'integer', (column) => column.notNull().references('shelf.id'))
    .addColumn('title', 'text', (column) => column.notNull())
    .execute()

  const shelf = await db.transaction().execute(async (trx) => {
    const { id } = await trx
      .insertInto('shelf')
      .values({ label: 'A' })
      .returning('id')
      .executeTakeFirstOrThrow()
    const titles = ['Emma', 'Persuasion']
    await trx
      .insertInto('book')
      .values(titles.map((title) => ({ shelf_id: id, title })))
      .execute()
    return id
  })
  await assert.rejects(db.insertInto('shelf').values({ label: 'A' }).execute(), isUniqueViolation)
  await assert.rejects(
    db.transaction().execute(async (trx) => {
      await trx.deleteFrom('book').execute()
      throw new StreamError('TRANSACTION_LOST', 'simulated')
    }),
    StreamError,
  )
  const [books, count] = await batch(db, [
    db.selectFrom('book').select('title').where('shelf_id', '=', shelf).orderBy('title'),
    db.selectFrom('book').select(sql<number>`count(*)`.as('n')),
  ])
  assert.deepEqual([books, count], [[{ title: 'Emma' }, { title: 'Persuasion' }], [{ n: 2 }]])
  let sum = 0
  for await (const { id } of db.selectFrom('book').select('id').stream()) sum += id
  assert.equal(sum, 3)
  await db.destroy()
  console.log('kysely: ok')
}

void main()
