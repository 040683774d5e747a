import { createClient, decodeVector, encodeVector, SqlError } from '@batonsql/core'
import {
  BatonDialect,
  batch,
  cosineDistance,
  euclideanDistance,
  nearest,
  vectorType,
} from '@batonsql/kysely-dialect'
import { CamelCasePlugin, type Generated, Kysely, ParseJSONResultsPlugin, SqliteAdapter, sql } from 'kysely'
import { jsonArrayFrom, jsonObjectFrom } from 'kysely/helpers/sqlite'
import { beforeEach, describe, expect, test } from 'vitest'
import { openKysely } from './open-kysely.ts'

interface Tables {
  person: { id: Generated<number>; name: string; age: number | null }
  pet: { id: Generated<number>; owner_id: number; name: string }
}

const { database, db, countRequestsOf } = await openKysely<Tables>([
  'create table person (id integer primary key autoincrement, name text not null unique, age integer)',
  `create table pet (id integer primary key,
    owner_id integer not null references person (id) on delete cascade, name text not null)`,
])
beforeEach(async () => {
  await db.deleteFrom('pet').execute()
  await db.deleteFrom('person').execute()
})

const insertPeople = (people: readonly { name: unknown; age?: number }[]): Promise<unknown> =>
  db
    .insertInto('person')
    .values(people as never)
    .execute()

describe('queries', () => {
  test('a select is one request and returns plain, mutable rows', async () => {
    await insertPeople([{ name: 'Ada', age: 36 }])
    const query = db.selectFrom('person').select(['name', 'age'])
    expect(await countRequestsOf(() => query.execute())).toBe(1)
    const rows = await query.execute()
    expect(rows).toEqual([{ name: 'Ada', age: 36 }])
    expect(Object.getPrototypeOf(rows[0])).toBe(Object.prototype)
    rows[0]!.name = 'Grace'
  })

  test('queries started together are in flight together', async () => {
    let waiting = 0
    const allWaiting = Promise.withResolvers<void>()
    const blocking = new Kysely<Tables>({
      dialect: new BatonDialect({
        ...database.config,
        // if they ran one after another, the first would wait forever
        async fetch(input, init) {
          waiting += 1
          if (waiting === 10) allWaiting.resolve()
          await allWaiting.promise
          return await fetch(input, init)
        },
      }),
    })
    const queries = Array.from({ length: 10 }, () => blocking.selectFrom('person').selectAll().execute())
    expect(await Promise.all(queries)).toHaveLength(10)
    await blocking.destroy()
  })

  test('supports joins, subqueries as JSON, and the plugins for them', async () => {
    const ada = await db
      .insertInto('person')
      .values({ name: 'Ada' })
      .returning('id')
      .executeTakeFirstOrThrow()
    await db
      .insertInto('pet')
      .values([
        { owner_id: ada.id, name: 'Rex' },
        { owner_id: ada.id, name: 'Tom' },
      ])
      .execute()
    const joined = await db
      .selectFrom('pet')
      .innerJoin('person', 'person.id', 'pet.owner_id')
      .select(['pet.name', 'person.name as owner'])
      .orderBy('pet.name')
      .execute()
    expect(joined).toEqual([
      { name: 'Rex', owner: 'Ada' },
      { name: 'Tom', owner: 'Ada' },
    ])
    const people = await db
      .withPlugin(new ParseJSONResultsPlugin())
      .withPlugin(new CamelCasePlugin())
      .selectFrom('person')
      .select((eb) => [
        'person.name as full_name',
        jsonArrayFrom(
          eb
            .selectFrom('pet')
            .select('pet.name')
            .whereRef('pet.owner_id', '=', 'person.id')
            .orderBy('pet.name'),
        ).as('pets'),
        jsonObjectFrom(
          eb.selectFrom('pet').select('pet.name').whereRef('pet.owner_id', '=', 'person.id').limit(1),
        ).as('pet'),
      ])
      .execute()
    expect(people).toEqual([
      { fullName: 'Ada', pets: [{ name: 'Rex' }, { name: 'Tom' }], pet: { name: 'Rex' } },
    ])
  })

  test('streams yield rows in chunks, and can be left early', async () => {
    await insertPeople(Array.from({ length: 5 }, (_, n) => ({ name: `p${n}` })))
    const names: string[] = []
    for await (const row of db.selectFrom('person').select('name').orderBy('name').stream(2)) {
      names.push(row.name)
      if (names.length === 3) break
    }
    expect(names).toEqual(['p0', 'p1', 'p2'])
    await expect(db.selectFrom('person').select('name').stream(0).next()).rejects.toThrow('`chunkSize`')
  })
})

describe('results', () => {
  test('insertId is set only if a row was inserted', async () => {
    const first = await db.insertInto('person').values({ name: 'Ada' }).executeTakeFirstOrThrow()
    expect(typeof first.insertId).toBe('bigint')
    expect(first.numInsertedOrUpdatedRows).toBe(1n)
    const ignored = await db
      .insertInto('person')
      .values({ name: 'Ada' })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirstOrThrow()
    expect([ignored.insertId, ignored.numInsertedOrUpdatedRows]).toEqual([undefined, 0n])
    const upserted = await db
      .insertInto('person')
      .values({ name: 'Ada' })
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ age: 1 }))
      .executeTakeFirstOrThrow()
    expect([upserted.insertId, upserted.numInsertedOrUpdatedRows]).toEqual([undefined, 1n])
    const updated = await db.executeQuery(db.updateTable('person').set({ age: 37 }).compile())
    expect(updated).toEqual({ rows: [], numAffectedRows: 1n })
  })

  test('selects have no counts; changes with RETURNING do', async () => {
    expect(await db.executeQuery(db.selectFrom('person').selectAll().compile())).toEqual({ rows: [] })
    const inserted = await db.executeQuery(
      db.insertInto('person').values({ name: 'Ada' }).returning('name').compile(),
    )
    expect(inserted).toEqual({ rows: [{ name: 'Ada' }], numAffectedRows: 1n })
    const deleted = await db.executeQuery(
      db.deleteFrom('person').where('name', '=', 'x').returning('id').compile(),
    )
    expect(deleted).toEqual({ rows: [], numAffectedRows: 0n })
    expect((await db.deleteFrom('person').executeTakeFirstOrThrow()).numDeletedRows).toBe(1n)
  })
})

test('whole numbers are stored as integers, all others as floats', async () => {
  const values = [1, -(2 ** 53) + 1, 2n ** 60n, true, 1.5, -0, 2 ** 53, '1', new Uint8Array([1]), null]
  const { rows } = await sql<{ types: string }>`
      select ${sql.join(
        values.map((value) => sql`typeof(${value})`),
        sql` || ' ' || `,
      )} as types`.execute(db)
  expect(rows[0]!.types).toBe('integer integer integer integer real real real text blob null')
})

test('vectors are stored as blobs, compared by the server, and found through an index', async () => {
  await db.schema
    .createTable('place')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('at', vectorType(3))
    .execute()
  const places = db.withTables<{ place: { id: number; at: Uint8Array } }>()
  await places.schema.createIndex('place_at').on('place').expression(sql`libsql_vector_idx(at)`).execute()
  await places
    .insertInto('place')
    .values([
      { id: 1, at: encodeVector([1, 0, 0]) },
      { id: 2, at: encodeVector([0, 1, 0.5]) },
    ])
    .execute()
  const nearestPlaces = await places
    .selectFrom('place')
    .select((eb) => [
      'id',
      'at',
      cosineDistance('at', [0, 1, 0]).as('cos'),
      euclideanDistance(eb.ref('at'), [0, 1, 0]).as('l2'),
    ])
    .orderBy(cosineDistance('place.at', [0, 1, 0]))
    .execute()
  expect(nearestPlaces.map(({ id }) => id)).toEqual([2, 1])
  expect(nearestPlaces[1]).toMatchObject({ cos: 1, l2: expect.closeTo(Math.SQRT2, 5) as number })
  expect(decodeVector(nearestPlaces[0]!.at)).toEqual(new Float32Array([0, 1, 0.5]))
  const closest = await places
    .selectFrom(nearest('place_at', [0, 1, 0], 1).as('near'))
    .innerJoin('place', 'place.id', 'near.id')
    .select('place.id')
    .execute()
  expect(closest).toEqual([{ id: 2 }])
  const nowhere = places.selectFrom(nearest('nowhere', [0, 1, 0], 1).as('near')).select('near.id')
  await expect(nowhere.execute()).rejects.toBeInstanceOf(SqlError)
})

describe('ownership', () => {
  test('a client passed to the dialect stays open', async () => {
    await using client = createClient(database.config)
    const withSharedClient = new Kysely<Tables>({ dialect: new BatonDialect({ client }) })
    await withSharedClient.selectFrom('person').selectAll().execute()
    await withSharedClient.destroy()
    expect((await client.execute('select 1 as one')).rows).toEqual([{ one: 1 }])
    await expect(withSharedClient.selectFrom('person').selectAll().execute()).rejects.toThrow('destroyed')
  })

  test('several instances can use one dialect, each with its own connections', async () => {
    const dialect = new BatonDialect(database.config)
    const [one, other] = [new Kysely<Tables>({ dialect }), new Kysely<Tables>({ dialect })]
    await one.selectFrom('person').selectAll().execute()
    await one.destroy()
    expect(await other.selectFrom('person').selectAll().execute()).toEqual([])
    await other.destroy()
  })

  test('the adapter reports what the database supports', () => {
    const { adapter } = db.getExecutor()
    expect(adapter).toBeInstanceOf(SqliteAdapter)
    expect(adapter).toMatchObject({
      supportsMultipleConnections: true,
      supportsTransactionalDdl: false,
      supportsReturning: true,
      supportsCreateIfNotExists: true,
    })
    const transactional = new BatonDialect({ url: database.url, transactionalMigrations: true })
    expect(transactional.createAdapter().supportsTransactionalDdl).toBe(true)
  })

  test('exactly one of client and url is required', () => {
    const client = createClient({ url: database.url })
    for (const [config, message] of [
      [{ url: undefined }, /either `client` or `url`.* is the environment variable for `url` set/],
      [undefined, /either `client` or `url`/],
      [null, /either `client` or `url`/],
      ['libsql://h?authToken=secret', /^(?!.*secret).*either `client` or `url`/],
      // such as a client of @libsql/client
      [
        { client: { execute: () => {}, batch: () => {} } },
        /expected a client from createClient\(\) .* Object/,
      ],
      [{ client: null }, /expected a client from createClient\(\) .* null/],
      [{ authToken: 'secret' }, /^(?!.*secret).*either `client` or `url`/],
      [{ url: 'http://h', transactionMode: 'write' }, /'immediate' or 'deferred', not 'write'/],
      [
        { url: 'http://h', transactionalMigrations: 'false' },
        /`transactionalMigrations` must be a boolean, not/,
      ],
    ] as const)
      expect(() => new BatonDialect(config as never)).toThrow(message)
    // @ts-expect-error not a configuration
    expect(() => new BatonDialect({})).toThrow('either `client` or `url`')
    // @ts-expect-error not a configuration
    expect(() => new BatonDialect({ client, url: database.url })).toThrow('either `client` or `url`')
    // @ts-expect-error not a configuration
    expect(() => new BatonDialect({ client, transactionMode: 'exclusive' })).toThrow('`transactionMode`')
    // @ts-expect-error not a configuration
    expect(() => new BatonDialect({ client, onCreateConnection() {} })).toThrow('onCreateConnection')
    // @ts-expect-error not a configuration
    const unknownOption = new BatonDialect({ url: database.url, poolSize: 3 })
    expect(() => new Kysely({ dialect: unknownOption })).toThrow('poolSize')
  })
})

test('RETURNING keeps the names of columns that contain quotes', async () => {
  const quoted = db.withTables<{ quoted: Record<string, number> }>()
  await sql`create table quoted (q, """q""", "a""b", """a"".""b""")`.execute(quoted)
  const row = { q: 1, '"q"': 2, 'a"b': 3 }
  const names = Object.keys(row)
  const insert = quoted.insertInto('quoted').values(row)
  expect(await insert.returningAll().execute()).toEqual([{ ...row, '"a"."b"': null }])
  expect(await insert.returning(names).execute()).toEqual([row])
  expect(await insert.returning(names.map((name) => `quoted.${name}` as const)).execute()).toEqual([row])
  expect(await quoted.updateTable('quoted').set({ q: 1 }).returning(names).execute()).toEqual([row, row, row])
  const [deleted] = await batch(quoted, [quoted.deleteFrom('quoted').returning(['"q"', 'q as "Q"'])])
  expect(deleted).toEqual(Array.from({ length: 3 }, () => ({ '"q"': 2, '"Q"': 1 })))
  await sql`drop table quoted`.execute(quoted)
})

test.each<[string, (invalid: unknown) => Promise<unknown>, string]>([
  ['an insert', (name) => insertPeople([{ name: 'a' }, { name }]), 'parameter 2 (column name): '],
  [
    'an insert with an expression',
    (name) => insertPeople([{ name: sql<string>`lower(${'A'})` }, { name }]),
    'parameter 2 (column name): ',
  ],
  [
    'an update',
    (name) =>
      db
        .updateTable('person')
        .set({ name } as never)
        .execute(),
    'parameter 1 (column name): ',
  ],
  [
    'a condition',
    (name) =>
      db
        .selectFrom('person')
        .select('id')
        .where('id', '=', 1)
        .where('person.name', '=', name as never)
        .execute(),
    'parameter 2 (column name): ',
  ],
  [
    'a list',
    (name) =>
      db
        .deleteFrom('person')
        .where('name', 'in', ['a', name] as never)
        .execute(),
    'parameter 2 (column name): ',
  ],
  [
    'a list with an expression',
    (name) =>
      db
        .deleteFrom('person')
        .where('name', 'in', [sql<string>`lower(${'A'})`, name] as never)
        .execute(),
    'parameter 2 (column name): ',
  ],
  ['raw SQL', (name) => sql`select ${name}`.execute(db), 'parameter 1: '],
  [
    'a batch',
    (name) => batch(db, [sql`select ${1}`, db.insertInto('person').values({ name } as never)]),
    'statement 1, parameter 1 (column name): ',
  ],
])('the error of a value that cannot be stored names the column: %s', async (_, run, start) => {
  for (const value of [new Date(), { a: 1 }, 2n ** 64n, Number.NaN, Symbol('x')])
    expect(await run(value).catch((error: Error) => error.message)).toMatch(
      new RegExp(`^${escape(start)}.* cannot be stored|^${escape(start)}.* does not fit`),
    )
  const message = await run(new Date()).catch((error: Error) => error.message)
  expect(message).toContain(
    'a Date cannot be stored; use toISOString() for text, or getTime() for an integer',
  )
})

test('the error of a value that refers to itself, or that several columns have, is as clear', async () => {
  const circular: { self?: unknown } = {}
  circular.self = circular
  await expect(sql`select ${circular}`.execute(db)).rejects.toThrow(/^parameter 1: .* cannot be stored/)
  const update = db.updateTable('person').set({ name: Number.NaN } as never)
  await expect(update.where('id', '=', Number.NaN).execute()).rejects.toThrow(
    /^parameter 1: NaN cannot be stored/,
  )
})

const escape = (text: string): string => text.replaceAll(/[()]/g, '\\$&')
