import { createClient } from '@batonsql/core'
import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver'
import { eq, relations, sql } from 'drizzle-orm'
import { blob, integer, numeric, real, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import * as fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, expectTypeOf, test } from 'vitest'
import { openTestServer, type TestDatabase } from '../../support/test-server.ts'

// Relational queries and column names, which are different in 1.0.

const users = sqliteTable('users', {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
  isAdmin: integer({ mode: 'boolean' }).notNull().default(false),
  bornAt: integer({ mode: 'timestamp_ms' }),
})
const posts = sqliteTable('posts', {
  id: integer().primaryKey(),
  authorId: integer().references(() => users.id, { onDelete: 'cascade' }),
  title: text().notNull(),
})
const usersRelations = relations(users, ({ many }) => ({ posts: many(posts) }))
const postsRelations = relations(posts, ({ one }) => ({
  author: one(users, { fields: [posts.authorId], references: [users.id] }),
}))
const schema = { users, posts, usersRelations, postsRelations }
const ada = { id: 1, name: 'Ada', isAdmin: false, bornAt: new Date(5) }

let database: TestDatabase
let db: BatonDatabase<typeof schema>

beforeAll(async () => {
  const server = await openTestServer()
  database = await server.createDatabase()
  db = drizzle({ connection: database.config, schema, casing: 'snake_case' })
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

test('column names follow the casing', async () => {
  expect(await db.select().from(users)).toEqual([ada])
  expect(await db.values(`select born_at from users`)).toEqual([[5]])
})

test('finds rows with their relations', async () => {
  await db.insert(posts).values([
    { id: 10, authorId: 1, title: 'a' },
    { id: 11, authorId: 1, title: 'b' },
  ])
  const user = await db.query.users.findFirst({
    where: eq(users.id, 1),
    columns: { name: true },
    with: { posts: { columns: { title: true }, orderBy: posts.id } },
  })
  expect(user).toEqual({ name: 'Ada', posts: [{ title: 'a' }, { title: 'b' }] })
  expect(await db.query.posts.findMany({ with: { author: true }, limit: 1 })).toEqual([
    { id: 10, authorId: 1, title: 'a', author: ada },
  ])
  expect(await db.query.users.findFirst({ where: eq(users.id, 99) })).toBeUndefined()
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
  for (const bigintDb of [
    drizzle(client, { schema, casing: 'snake_case' }),
    drizzle({ client, schema, casing: 'snake_case' }),
  ])
    expect(await bigintDb.query.users.findMany({ with: { posts: true } })).toEqual([{ ...ada, posts: [] }])
})

test('blobs have memory of their own', async () => {
  const files = sqliteTable('files', { id: integer().primaryKey(), bytes: blob({ mode: 'buffer' }) })
  const dbWithFiles = drizzle({ client: db.$client, schema: { files } })
  await dbWithFiles.run(`create table files (id integer primary key, bytes blob)`)
  await dbWithFiles.insert(files).values({ bytes: Buffer.from('abc') })
  const [file] = await dbWithFiles.query.files.findMany()
  expect(file?.bytes).toEqual(Buffer.from('abc'))
  expect(file?.bytes?.buffer.byteLength).toBe(3)
})

test('REAL values keep all digits at every depth of a relational query', async () => {
  const samples = sqliteTable('samples', {
    id: integer().primaryKey(),
    ownerId: integer('owner_id'),
    real: real('real_value'),
    integer: integer(),
    text: numeric(),
  })
  const dbWithSamples = drizzle({
    client: db.$client,
    casing: 'snake_case',
    schema: {
      users,
      samples,
      usersRelations: relations(users, ({ many }) => ({ samples: many(samples) })),
      samplesRelations: relations(samples, ({ one }) => ({
        owner: one(users, { fields: [samples.ownerId], references: [users.id] }),
      })),
    },
  })
  await dbWithSamples.run(sql`create table if not exists samples
    (id integer primary key, owner_id integer, real_value real, integer integer, text numeric)`)
  const double = fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0))
  const property = fc.asyncProperty(fc.array(double, { minLength: 1 }), async (values) => {
    await dbWithSamples.delete(samples)
    const rows = values.map((value, id) => ({
      id,
      ownerId: 1,
      real: value,
      // beyond 2^53 an integer column throws
      integer: Math.abs(value) > 2 ** 53 && Math.abs(value) < 2 ** 63 ? 0 : value,
      text: String(value),
    }))
    await dbWithSamples.insert(samples).values(rows)
    const bySelect = await dbWithSamples.select().from(samples).orderBy(samples.id)
    expect(bySelect.map(({ real: value }) => value)).toEqual(values)
    for (const settings of [{}, { limit: values.length }]) {
      const orderBy = samples.id
      const [owner] = await dbWithSamples.query.users.findMany({
        with: { samples: { ...settings, orderBy, with: { owner: { with: { samples: { orderBy } } } } } },
      })
      const inner = owner?.samples[0]?.owner
      expect(inner?.samples).toEqual(bySelect)
      expect(owner?.samples).toEqual(bySelect.map((sample) => ({ ...sample, owner: inner })))
    }
  })
  await fc.assert(property, {
    numRuns: 20,
    examples: [[[0.30000000000000004, 0.1, 1 / 3, 5e-324, Number.MAX_VALUE, 1e21, 123456789.12345679]]],
  })
})
