import { createClient } from '@batonsql/core'
import { type BatonDatabase, drizzle, int64, vector } from '@batonsql/drizzle-driver/v1'
import { defineRelations, sql } from 'drizzle-orm'
import { blob, integer, numeric, real, snakeCase, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import * as fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, expectTypeOf, inject, test } from 'vitest'
import { openTestServer, type TestDatabase } from '../../support/test-server.ts'

// Relational queries and column names, which differ from earlier versions.

const users = snakeCase.table('users', {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
  isAdmin: integer({ mode: 'boolean' }).notNull().default(false),
  bornAt: integer({ mode: 'timestamp_ms' }),
})
const posts = snakeCase.table('posts', {
  id: integer().primaryKey(),
  authorId: integer().references(() => users.id, { onDelete: 'cascade' }),
  title: text().notNull(),
})
const relations = defineRelations({ users, posts }, (r) => ({
  users: { posts: r.many.posts() },
  posts: { author: r.one.users({ from: r.posts.authorId, to: r.users.id }) },
}))
const ada = { id: 1, name: 'Ada', isAdmin: false, bornAt: new Date(5) }

let database: TestDatabase
let db: BatonDatabase<typeof relations>

beforeAll(async () => {
  const server = await openTestServer()
  database = await server.createDatabase()
  db = drizzle({ connection: database.config, relations })
  await db.batch([
    db.run(`create table users (id integer primary key autoincrement, name text not null unique,
      is_admin integer not null default 0, born_at integer)`),
    db.run(`create table posts (id integer primary key, author_id integer references users (id) on delete cascade,
      title text not null)`),
  ])
})
afterAll(() => db.$client.close())

beforeEach(async () => {
  await db.batch([db.delete(users), db.delete(posts), db.insert(users).values(ada)])
})

test('column names follow the casing of the table', async () => {
  expect(await db.select().from(users)).toEqual([ada])
  expect(await db.values(`select born_at from users`)).toEqual([[5]])
})

test('finds rows with their relations', async () => {
  await db.insert(posts).values([
    { id: 10, authorId: 1, title: 'a' },
    { id: 11, authorId: 1, title: 'b' },
  ])
  const user = await db.query.users.findFirst({
    where: { id: 1 },
    columns: { name: true },
    with: { posts: { columns: { title: true }, orderBy: { id: 'asc' } } },
  })
  expect(user).toEqual({ name: 'Ada', posts: [{ title: 'a' }, { title: 'b' }] })
  expect(await db.query.posts.findMany({ with: { author: true }, limit: 1 })).toEqual([
    { id: 10, authorId: 1, title: 'a', author: ada },
  ])
  expect(await db.query.users.findFirst({ where: { id: 99 } })).toBeUndefined()
  const first = () => db.query.users.findFirst({ with: { posts: true } })
  expectTypeOf(first).returns.resolves.extract<object>().toHaveProperty('posts')
})

test('works in transactions and batches', async () => {
  const result = await db.transaction(async (tx) => {
    await tx.update(users).set({ name: 'Grace' })
    const [first] = await tx.batch([tx.query.users.findFirst({ columns: { name: true } })])
    expectTypeOf(first).toEqualTypeOf<{ name: string } | undefined>()
    return await tx.transaction(async (nested) => ({ first, all: await nested.query.users.findMany() }))
  })
  expect(result).toEqual({ first: { name: 'Grace' }, all: [{ ...ada, name: 'Grace' }] })
})

test('with intMode bigint, integer() columns still return numbers', async () => {
  await using client = createClient({ ...database.config, intMode: 'bigint' })
  for (const bigintDb of [drizzle(client, { relations }), drizzle({ client, relations })])
    expect(await bigintDb.query.users.findMany({ with: { posts: true } })).toEqual([{ ...ada, posts: [] }])
})

test('decodes vectors in nested rows', async () => {
  const places = sqliteTable('places', { userId: integer('user_id'), at: vector({ dimensions: 2 }) })
  const dbWithPlaces = drizzle({
    client: db.$client,
    relations: defineRelations({ users, places }, (r) => ({
      users: { places: r.many.places({ from: r.users.id, to: r.places.userId }) },
    })),
  })
  await dbWithPlaces.run('create table places (user_id integer, at f32_blob(2))')
  await dbWithPlaces.insert(places).values({ userId: 1, at: [1, -0.5] })
  expect(await dbWithPlaces.query.users.findFirst({ with: { places: true } })).toEqual({
    ...ada,
    places: [{ userId: 1, at: new Float32Array([1, -0.5]) }],
  })
})

test('generated mappers return the same rows', async () => {
  const jit = drizzle({ client: db.$client, relations, jit: true })
  for (const orm of [db, jit]) {
    expect(await orm.select().from(users)).toEqual([ada])
    expect(await orm.query.users.findMany({ with: { posts: true } })).toEqual([{ ...ada, posts: [] }])
  }
})

test.each([false, true])('blobs have memory of their own, even in nested rows (jit: %s)', async (jit) => {
  const files = sqliteTable('files', {
    userId: integer('user_id'),
    bytes: blob({ mode: 'buffer' }).notNull(),
  })
  const dbWithFiles = drizzle({
    client: db.$client,
    jit,
    relations: defineRelations({ users, files }, (r) => ({
      users: { files: r.many.files({ from: r.users.id, to: r.files.userId }) },
    })),
  })
  await dbWithFiles.run('create table if not exists files (user_id integer, bytes blob)')
  await dbWithFiles.delete(files)
  await dbWithFiles.insert(files).values({ userId: 1, bytes: Buffer.from('abc') })
  const user = await dbWithFiles.query.users.findFirst({ with: { files: true } })
  const [file] = await dbWithFiles.query.files.findMany()
  for (const bytes of [user?.files[0]?.bytes, file?.bytes]) {
    expect(bytes).toEqual(Buffer.from('abc'))
    expect(bytes?.buffer.byteLength).toBe(3)
  }
})

test.each([false, true])('REAL values keep all digits, even in nested rows (jit: %s)', async (jit) => {
  const samples = sqliteTable('samples', {
    id: integer().primaryKey(),
    ownerId: integer('owner_id'),
    real: real(),
    integer: integer(),
    text: numeric(),
    number: numeric({ mode: 'number' }),
  })
  const dbWithSamples = drizzle({
    client: db.$client,
    jit,
    relations: defineRelations({ users, samples }, (r) => ({
      users: { samples: r.many.samples() },
      samples: { owner: r.one.users({ from: r.samples.ownerId, to: r.users.id }) },
    })),
  })
  await dbWithSamples.run(sql`create table if not exists samples
    (id integer primary key, owner_id integer, real real, integer integer, text numeric, number numeric)`)
  const double = fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0))
  // Drizzle sends values of numeric columns as text, which libsql-server converts with an error of up to one unit in the last place
  const expectNumeric = (value: number, exact: number): void => {
    const unit = Math.max(Math.abs(exact) * Number.EPSILON, Number.MIN_VALUE)
    if (inject('target') === 'embedded') expect(value).toBe(exact)
    else expect(Math.abs(value - exact)).toBeLessThanOrEqual(unit)
  }
  const property = fc.asyncProperty(fc.array(double, { minLength: 1 }), async (values) => {
    await dbWithSamples.delete(samples)
    const expected = values.map((value, id) => {
      const row = { id, ownerId: 1, real: value, integer: value, text: String(value), number: value }
      // Number.MAX_SAFE_INTEGER is the limit of integer columns
      return Math.abs(value) > 2 ** 53 && Math.abs(value) < 2 ** 63 ? { ...row, integer: 0, number: 0 } : row
    })
    await dbWithSamples.insert(samples).values(expected)
    const bySelect = await dbWithSamples.select().from(samples).orderBy(samples.id)
    expect(bySelect.map(({ real: value }) => value)).toEqual(values)
    for (const [index, { text: value, number }] of bySelect.entries()) {
      expectNumeric(Number(value), values[index] as number)
      expectNumeric(number as number, (expected[index] as { number: number }).number)
    }
    const [owner] = await dbWithSamples.query.users.findMany({
      with: { samples: { orderBy: { id: 'asc' } } },
    })
    expect(owner?.samples).toEqual(bySelect)
  })
  await fc.assert(property, {
    numRuns: 20,
    examples: [
      [[0.30000000000000004, 0.1, 1 / 3, 5e-324, Number.MAX_VALUE, 1e21, 123456789.12345679]],
      [[-8.821526513969626e217]],
    ],
  })
})

/** Every column type, and values of the database that it can hold. */
const STORED = [
  [integer(), '0', '-1', '9007199254740991', '0.5', '1e30', "'text'"],
  [integer({ mode: 'boolean' }), '0', '1'],
  [integer({ mode: 'timestamp' }), '0', '-1', '1700000000'],
  [integer({ mode: 'timestamp_ms' }), '0', '1700000000123'],
  [real(), '0.1', '0.30000000000000004', '-0.0', '5e-324', '1.7976931348623157e308', '9007199254740993'],
  [numeric(), '0', '1.5', "'text'"],
  [numeric({ mode: 'number' }), '0', '1.5', '1e30'],
  [numeric({ mode: 'bigint' }), '9007199254740993'],
  [text(), "''", "'é😀'", "'null'", "'[9007199254740993]'", "'a' || char(0)"],
  [text({ mode: 'json' }), `'{"a":[1,null]}'`],
  [blob({ mode: 'buffer' }), "x''", "x'00ff'"],
  [blob({ mode: 'json' }), `cast('{"a":[1,null]}' as blob)`],
  [blob({ mode: 'bigint' }), "cast('9007199254740993' as blob)"],
  [int64(), '0', '9007199254740993', '-9223372036854775808'],
  [vector({ dimensions: 1 }), "vector32('[0.5]')"],
] as const

test.each(STORED.flatMap(([column, ...values]) => [false, true].map((jit) => ({ column, values, jit }))))(
  'nested rows have the values of a select: $values, jit: $jit',
  async ({ column, values, jit }) => {
    const notes = sqliteTable('notes', {
      id: integer().primaryKey(),
      userId: integer('user_id'),
      value: column,
    })
    const dbWithNotes = drizzle({
      client: db.$client,
      jit,
      relations: defineRelations({ users, notes }, (r) => ({
        users: { notes: r.many.notes({ from: r.users.id, to: r.notes.userId }) },
      })),
    })
    const client = db.$client
    await client.batch([
      'drop table if exists notes',
      `create table notes (id integer primary key, user_id integer, value ${notes.value.getSQLType()})`,
      ...['null', ...values].map((value) => `insert into notes (user_id, value) values (1, ${value})`),
    ])
    const selected = await dbWithNotes.select().from(notes).orderBy(notes.id)
    expect(selected[0]?.value).toBeNull()
    const user = await dbWithNotes.query.users.findFirst({ with: { notes: { orderBy: { id: 'asc' } } } })
    expect(user?.notes).toStrictEqual(selected)
  },
)

test('int64() in an extra of a nested row rejects an inexact integer', async () => {
  const big = snakeCase.table('posts', { id: int64().primaryKey(), authorId: integer() })
  const dbWithBig = drizzle({
    client: db.$client,
    relations: defineRelations({ users, big }, (r) => ({
      users: { posts: r.many.big({ from: r.users.id, to: r.big.authorId }) },
    })),
  })
  const inExtra = async (value: string) => {
    const extras = { x: sql.raw(value).mapWith(big.id) }
    const user = await dbWithBig.query.users.findFirst({ with: { posts: { columns: {}, extras } } })
    return user?.posts
  }
  await db.insert(posts).values({ id: 1, authorId: 1, title: 'a' })
  expect(await inExtra('9007199254740991')).toEqual([{ x: 9007199254740991n }])
  expect(await inExtra('cast(9007199254740993 as text)')).toEqual([{ x: 9007199254740993n }])
  await expect(inExtra('9007199254740993')).rejects.toThrow(/^int64\(\): 9007199254740992 is not exact;/)
})

test('the error of an inexact integer in an extra names the column', async () => {
  const inExtra = db.query.users.findMany({
    columns: {},
    extras: { x: sql`9007199254740993`.mapWith(users.id) },
  })
  await expect(inExtra).rejects.toThrow(
    /users\.id: .* is not exact as a number; declare the column with int64\(\)$/,
  )
})
