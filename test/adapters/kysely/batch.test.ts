import { createClient } from '@batonsql/core'
import { BatonDialect, batch } from '@batonsql/kysely-dialect'
import {
  CamelCasePlugin,
  type Generated,
  type InsertResult,
  Kysely,
  ParseJSONResultsPlugin,
  type QueryResult,
  sql,
} from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/sqlite'
import { beforeAll, beforeEach, expect, expectTypeOf, test } from 'vitest'
import { createOtherKysely, openKysely } from './open-kysely.ts'

interface Tables {
  person: { id: Generated<number>; name: string }
  pet: { id: Generated<number>; owner_id: number; name: string }
}

const log: string[] = []
const { database, db, countRequestsOf } = await openKysely<Tables>([], {
  log: (event) => void log.push(`${event.level} ${event.query.sql}`),
})
beforeAll(async () => {
  await batch(db, [
    db.schema
      .createTable('person')
      .addColumn('id', 'integer', (c) => c.primaryKey())
      .addColumn('name', 'text', (c) => c.unique()),
    db.schema
      .createTable('pet')
      .addColumn('id', 'integer', (c) => c.primaryKey())
      .addColumn('owner_id', 'integer')
      .addColumn('name', 'text'),
  ])
})
beforeEach(async () => {
  await batch(db, [db.deleteFrom('pet'), db.deleteFrom('person')])
  log.length = 0
})

const readNames = async (): Promise<string[]> => {
  const rows = await db.selectFrom('person').select('name').orderBy('name').execute()
  return rows.map((row) => row.name)
}

test('six queries of different kinds take one request, each with its own result and type', async () => {
  const requests = await countRequestsOf(async () => {
    const results = await batch(db, [
      db.insertInto('person').values({ id: 1, name: 'Ada' }),
      db.insertInto('pet').values({ owner_id: 1, name: 'Rex' }).returning(['id', 'name']),
      db.selectFrom('person').selectAll(),
      db.updateTable('person').set({ name: 'Ada L.' }),
      sql<{ n: number }>`select count(*) as n from pet`,
      db.selectFrom('person').select('name').compile(),
    ])
    expect(results).toEqual([
      [expect.objectContaining({ insertId: 1n, numInsertedOrUpdatedRows: 1n })],
      [{ id: 1, name: 'Rex' }],
      [{ id: 1, name: 'Ada' }],
      [expect.objectContaining({ numUpdatedRows: 1n })],
      { rows: [{ n: 1 }] },
      { rows: [{ name: 'Ada L.' }] },
    ])
    expectTypeOf(results[0]).toEqualTypeOf<InsertResult[]>()
    expectTypeOf(results[1]).toEqualTypeOf<{ id: number; name: string }[]>()
    expectTypeOf(results[4]).toEqualTypeOf<QueryResult<{ n: number }>>()
    expectTypeOf(results[5]).toEqualTypeOf<QueryResult<{ name: string }>>()
  })
  expect(requests).toBe(1)
})

test('plugins of the database and of the query are applied', async () => {
  const camelDb = db.withPlugin(new CamelCasePlugin()) as unknown as Kysely<{
    person: Tables['person']
    pet: { id: Generated<number>; ownerId: number; name: string }
  }>
  const [, , people, raw] = await batch(camelDb, [
    camelDb.insertInto('person').values({ id: 1, name: 'Ada' }),
    camelDb.insertInto('pet').values({ ownerId: 1, name: 'Rex' }),
    camelDb
      .selectFrom('person')
      .select((eb) => [
        'person.id as personId',
        jsonArrayFrom(
          eb.selectFrom('pet').select(['pet.name', 'pet.ownerId']).whereRef('pet.ownerId', '=', 'person.id'),
        ).as('pets'),
      ])
      .withPlugin(new ParseJSONResultsPlugin()),
    sql`select owner_id from pet`,
  ])
  expect(people).toEqual([{ personId: 1, pets: [{ name: 'Rex', ownerId: 1 }] }])
  expect(raw.rows).toEqual([{ ownerId: 1 }])
})

test('accepts arrays of unknown length, and an empty array', async () => {
  const inserted = await batch(
    db,
    ['a', 'b'].map((name) => db.insertInto('person').values({ name }).returning('name')),
  )
  expectTypeOf(inserted).toEqualTypeOf<{ name: string }[][]>()
  expect(inserted).toEqual([[{ name: 'a' }], [{ name: 'b' }]])
  expect(await countRequestsOf(() => expect(batch(db, [])).resolves.toEqual([]))).toBe(0)
})

test('an empty batch is rejected like any other: by a client, an instance, a transaction or a connection that has ended, and for its mode', async () => {
  await expect(batch(db, [], { mode: 'exclusive' as never })).rejects.toThrow('mode must be')
  const ended = await db.transaction().execute(async (trx) => {
    await sql`select 1`.execute(trx)
    return trx
  })
  await expect(batch(ended, [])).rejects.toThrow('already committed')
  const released = await db.connection().execute(async (connection) => connection)
  await expect(batch(released, [])).rejects.toMatchObject({ code: 'STREAM_CLOSED' })
  const client = createClient(database.config)
  const ofClosed = new Kysely({ dialect: new BatonDialect({ client }) })
  await client.close()
  await expect(batch(ofClosed, [])).rejects.toMatchObject({ code: 'CLOSED' })
  await ofClosed.destroy()
  await expect(batch(ofClosed, [])).rejects.toThrow('destroyed')
})

test('a compiled query can be used in several batches, and executed separately afterwards', async () => {
  const select = db.selectFrom('person').select('name').compile()
  const [[, first], second] = await Promise.all([
    batch(db, [db.insertInto('person').values({ name: 'a' }), select]),
    batch(db, [select, select], { mode: 'deferred' }),
  ])
  expect(first.rows).toEqual([{ name: 'a' }])
  expect(second[0]).toEqual(second[1])
  await db.deleteFrom('person').execute()
  expect((await db.executeQuery(select)).rows).toEqual([])
})

test('a query that is in a batch twice runs twice', async () => {
  const pet = db.insertInto('pet').values({ name: 'Rex', owner_id: 1 }).returning('name')
  const requests = await countRequestsOf(async () => {
    expect(await batch(db, [pet, pet])).toEqual([[{ name: 'Rex' }], [{ name: 'Rex' }]])
  })
  expect(requests).toBe(1)
  expect(await db.selectFrom('pet').selectAll().execute()).toHaveLength(2)
})

test('a query that is also executed separately at the same time gets separate results', async () => {
  const select = db.selectFrom('person').select('name')
  const separately = select.execute()
  const inBatch = batch(db, [
    db.insertInto('person').values({ name: 'Ada' }),
    select,
    db.deleteFrom('person'),
  ])
  expect(await separately).toEqual([])
  expect((await inBatch)[1]).toEqual([{ name: 'Ada' }])
})

test('reports which query is invalid SQL, outside and inside a transaction, which continues', async () => {
  const queriesWithInvalidSql = (executor: typeof db) => [
    executor.insertInto('person').values({ name: 'lost' }),
    sql`selec 1`,
    executor.selectFrom('person').selectAll(),
  ]
  const rejection = { statementIndex: 1, sql: 'selec 1', code: 'SQL_PARSE_ERROR' }
  await expect(batch(db, queriesWithInvalidSql(db))).rejects.toMatchObject(rejection)
  await db.transaction().execute(async (trx) => {
    await trx.insertInto('person').values({ name: 'kept' }).execute()
    await expect(batch(trx, queriesWithInvalidSql(trx))).rejects.toMatchObject(rejection)
  })
  expect(await readNames()).toEqual(['kept'])
})

test('is atomic, and the error identifies the query that failed', async () => {
  const error: unknown = await batch(db, [
    db.insertInto('person').values({ name: 'a' }),
    db.insertInto('person').values({ name: 'a' }),
  ]).catch((reason: unknown) => reason)
  expect(error).toMatchObject({ statementIndex: 1, extendedCode: 'SQLITE_CONSTRAINT_UNIQUE' })
  expect((error as Error).stack).toContain('kysely/batch.test.ts')
  expect(await readNames()).toEqual([])
})

test('a batch inside a transaction is one request, and its failure does not end the transaction', async () => {
  const requests = await countRequestsOf(() =>
    db.transaction().execute(async (trx) => {
      const [, rows] = await batch(trx, [
        trx.insertInto('person').values({ name: 'a' }),
        trx.selectFrom('person').select('name'),
      ])
      expect(rows).toEqual([{ name: 'a' }])
      const failing = batch(trx, [
        trx.insertInto('person').values({ name: 'b' }),
        trx.insertInto('person').values({ name: 'a' }),
      ])
      await expect(failing).rejects.toMatchObject({ statementIndex: 1 })
    }),
  )
  expect(requests).toBe(3)
  expect(await readNames()).toEqual(['a', 'b'])
})

test('logs the batch and its queries', async () => {
  await batch(db, [db.selectFrom('person').select('id'), db.selectFrom('pet').select('id')])
  expect(log).toEqual([
    'query select "id" from "person";\nselect "id" from "pet"',
    'query select "id" from "person"',
    'query select "id" from "pet"',
  ])
})

test('a query runs on the handle passed to batch(), even if another handle built it', async () => {
  await db.transaction().execute(async (trx) => {
    await batch(trx, [db.insertInto('person').values({ name: 'a' })])
    const [[inside], [outside]] = await Promise.all([
      batch(trx, [db.selectFrom('person').selectAll()]),
      // does not wait until the transaction ends
      batch(db, [trx.selectFrom('person').selectAll()], { mode: 'deferred' }),
    ])
    expect([inside, outside]).toMatchObject([[{ name: 'a' }], []])
  })
  expect(await readNames()).toEqual(['a'])
})

test('a query that a transaction has built cannot run once the transaction has ended: nothing is applied', async () => {
  let count = 0
  const insert = (handle: typeof db) => handle.insertInto('person').values({ name: `p${(count += 1)}` })
  const ended: ReturnType<typeof insert>[] = []
  await db.transaction().execute(async (trx) => void ended.push(insert(trx)))
  const controlled = await db.startTransaction().execute()
  ended.push(insert(controlled))
  await controlled.rollback().execute()
  for (const query of ended) {
    const queries = [insert(db), query]
    const message = /already (?:committed|rolled back)/
    const requests = await countRequestsOf(async () => {
      await expect(batch(db, queries)).rejects.toThrow(message)
      const onConnection = db.connection().execute((connection) => batch(connection, queries))
      await expect(onConnection).rejects.toThrow(message)
    })
    expect(requests).toBe(0)
    const transaction = db.transaction().execute((trx) => batch(trx, [insert(trx), query]))
    await expect(transaction).rejects.toThrow(message)
  }
  expect(await readNames()).toEqual([])
})

test.each([undefined, null, 5, {}, { getExecutor: () => ({}) }])(
  '%o is not a Kysely instance',
  async (other) => {
    await expect(batch(other as never, [])).rejects.toThrow('batch() needs a Kysely instance, ')
  },
)

test.each([undefined, false, 'select 1', Promise.resolve([])])(
  '%o, which is not a query, is rejected with its position',
  async (query) => {
    const queries = [db.selectFrom('person').selectAll(), query] as never[]
    await expect(batch(db, queries)).rejects.toThrow('query 1 of the batch is neither a query builder nor')
    await expect(batch(db, query as never)).rejects.toThrow('expected an array of queries')
  },
)

test('a query of another Kysely instance is rejected before anything is sent', async () => {
  const other = new Kysely<Tables>({
    dialect: new BatonDialect(database.config),
    plugins: [new CamelCasePlugin()],
  })
  const insert = (executor: typeof db) => executor.insertInto('person').values({ name: 'a' })
  const requests = await countRequestsOf(async () => {
    await expect(batch(db, [insert(db), insert(other)])).rejects.toThrow('query 1 of the batch')
    await expect(batch(db, [other.schema.dropTable('pet')])).rejects.toThrow('query 0 of the batch')
  })
  expect(requests).toBe(0)
  // these are not bound to a connection
  const [raw, compiled] = await batch(db, [
    sql<{ a: number }>`select 1 as a`.withPlugin(new CamelCasePlugin()),
    other
      .selectFrom('pet')
      .select('ownerId' as 'owner_id')
      .compile(),
  ])
  expect([raw.rows, compiled.rows]).toEqual([[{ a: 1 }], []])
  await other.destroy()
})

test('another dialect’s database is rejected, and so are its queries', async () => {
  const other = createOtherKysely<Tables>()
  await expect(batch(other, [other.selectFrom('person').selectAll()])).rejects.toThrow('BatonDialect')
  await expect(batch(db, [other.selectFrom('person').selectAll()])).rejects.toThrow('query 0 of the batch')
  // @ts-expect-error not a query
  await expect(batch(db, [1])).rejects.toThrow(TypeError)
})

test.each<[unknown, string]>([
  [{ behavior: 'deferred' }, 'unknown option behavior; the options are mode'],
  [{ mode: 'write' }, "mode must be 'immediate' or"],
  ['deferred', 'expected options { mode }, not a value of type string'],
  [null, 'expected options { mode }, not null'],
])('rejects %o as options', async (options, message) => {
  const requests = await countRequestsOf(async () => {
    const batched = batch(db, [db.deleteFrom('person')], options as object)
    await expect(batched).rejects.toThrow(message)
    const inTransaction = db
      .transaction()
      .execute((trx) => batch(trx, [trx.deleteFrom('person')], options as object))
    await expect(inTransaction).rejects.toThrow(message)
  })
  expect(requests).toBe(0)
})
