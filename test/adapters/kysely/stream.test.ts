import { BatonDialect } from '@batonsql/kysely-dialect'
import { Kysely, sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'

interface Database {
  measurement: { id: number; name: string }
}

const server = await openTestServer()
const database = await server.createDatabase()
const db = new Kysely<Database>({ dialect: new BatonDialect(database.config) })
let requestsBefore = 0
const countRequests = (): number => database.requestCount() - requestsBefore
const measurements = db.selectFrom('measurement').selectAll().orderBy('id')

beforeAll(async () => {
  await db.schema
    .createTable('measurement')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('name', 'text')
    .execute()
  await sql`insert into measurement with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) select i, 'm' || i from n`.execute(
    db,
  )
})
afterAll(() => db.destroy())

test.each([1, 7, 100, 10_000])('streams every row in chunks of %i, in two requests', async (chunkSize) => {
  requestsBefore = database.requestCount()
  let sum = 0
  for await (const { id, name } of measurements.stream(chunkSize)) {
    expect(name).toBe(`m${id}`)
    sum += id
  }
  expect([sum, countRequests()]).toEqual([12_502_500, 2])
})

test('leaving the loop ends the query and releases the connection', async () => {
  requestsBefore = database.requestCount()
  for await (const { id } of measurements.stream(10)) if (id === 25) break
  expect(countRequests()).toBe(2)
  expect(await db.selectFrom('measurement').select('id').where('id', '=', 1).execute()).toEqual([{ id: 1 }])
})

test('streams inside a transaction, and the transaction continues afterwards', async () => {
  await db.transaction().execute(async (trx) => {
    await trx.insertInto('measurement').values({ id: 6_000, name: 'new' }).execute()
    const ids: number[] = []
    for await (const { id } of trx
      .selectFrom('measurement')
      .select('id')
      .where('id', '>', 4_998)
      .orderBy('id')
      .stream(1))
      ids.push(id)
    expect(ids).toEqual([4_999, 5_000, 6_000])
    await trx.deleteFrom('measurement').where('id', '=', 6_000).execute()
  })
})

test('errors are thrown from the loop', async () => {
  const invalidQuery = sql<{ a: number }>`select * from missing`.compile(db)
  const read = (async () => {
    for await (const row of db.getExecutor().stream(invalidQuery, 1)) expect.unreachable(JSON.stringify(row))
  })()
  await expect(read).rejects.toMatchObject({ name: 'SqlError', code: 'SQLITE_UNKNOWN' })
})
