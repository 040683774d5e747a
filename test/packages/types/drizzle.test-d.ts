import { type Client, createClient } from '@batonsql/core'
import { type BatchResults, bind, drizzle, int64, type RunResult, vector } from '@batonsql/drizzle-driver'
import { eq, sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { expectTypeOf, test } from 'vitest'

// Compiled by `npm run check` with each version of Drizzle, but never executed.

const users = sqliteTable('users', {
  id: integer().primaryKey(),
  name: text().notNull(),
  big: int64(),
  at: vector({ dimensions: 3 }),
})
const posts = sqliteTable('posts', {
  id: integer().primaryKey(),
  authorId: integer().notNull(),
  title: text().notNull(),
})
const db = drizzle({ connection: 'http://127.0.0.1' })
type User = typeof users.$inferSelect

test('a tuple keeps the type of each of its queries', () => {
  const byId = db
    .select({ name: users.name })
    .from(users)
    .where(eq(users.id, sql.placeholder('id')))
    .prepare()
  const results = () =>
    db.batch([
      db.select().from(users),
      db
        .select({ id: users.id, title: posts.title })
        .from(users)
        .leftJoin(posts, eq(posts.authorId, users.id)),
      db.insert(users).values({ name: 'Ada' }),
      db.insert(users).values({ name: 'Ada' }).returning({ id: users.id }),
      db.update(users).set({ name: 'Bob' }),
      db.delete(users),
      db.all<{ n: number }>(sql`select 1 as n`),
      db.run(sql`select 1`),
      byId,
      bind(byId, { id: 1 }),
    ])
  expectTypeOf(results).returns.resolves.toEqualTypeOf<
    [
      User[],
      { id: number; title: string | null }[],
      RunResult,
      { id: number }[],
      RunResult,
      RunResult,
      { n: number }[],
      RunResult,
      { name: string }[],
      { name: string }[],
    ]
  >()
})

test('an array of unknown length returns an array', () => {
  const results = (names: string[]) =>
    db.batch(names.map((name) => db.insert(users).values({ name }).returning({ id: users.id })))
  expectTypeOf(results).returns.resolves.toEqualTypeOf<{ id: number }[][]>()
  expectTypeOf(() => db.batch([])).returns.resolves.toEqualTypeOf<[]>()
  const queries = [db.select().from(users)] as const
  expectTypeOf<BatchResults<typeof queries>>().toEqualTypeOf<[User[]]>()
})

test('columns of this package', () => {
  expectTypeOf<User['big']>().toEqualTypeOf<bigint | null>()
  expectTypeOf<number[]>().toExtend<NonNullable<(typeof users.$inferInsert)['at']>>()
})

test('$client, also on a mock, and queries in a transaction', () => {
  expectTypeOf(db.$client).toEqualTypeOf<Client>()
  expectTypeOf(drizzle('http://127.0.0.1').$client).toEqualTypeOf<Client>()
  expectTypeOf(drizzle.mock().$client).toEqualTypeOf<'$client is not available on drizzle.mock()'>()
  const inside = () =>
    db.transaction(async (tx) => {
      const [rows] = await tx.batch([tx.select({ id: users.id }).from(users)])
      return await tx.transaction(async (nested) => ({ rows, ran: await nested.run(sql`select 1`) }))
    })
  expectTypeOf(inside).returns.resolves.toEqualTypeOf<{
    rows: { id: number }[]
    ran: RunResult
  }>()
})

test('invalid code does not compile', () => {
  const neverCalled = async () => {
    // @ts-expect-error text is not a query
    await db.batch(['select 1'])
    // @ts-expect-error a promise is not a query: it is already running
    await db.batch([db.select().from(users).execute()])
    // @ts-expect-error a single query is not a list
    await db.batch(db.select().from(users))
    // @ts-expect-error only prepared queries have placeholders
    bind(db.select().from(users), {})
    // @ts-expect-error no such behavior
    await db.transaction(async () => {}, { behavior: 'later' })
    // @ts-expect-error either a client or a connection
    drizzle({ client: createClient({ url: 'http://127.0.0.1' }), connection: 'http://127.0.0.1' })
    // @ts-expect-error vectors have dimensions
    vector()
    const [rows] = await db.batch([db.select({ id: users.id }).from(users)])
    // @ts-expect-error the column was not selected
    expectTypeOf(rows[0]?.name)
    const one = await db.batch([db.select().from(users)])
    // @ts-expect-error there is no second result
    expectTypeOf(one[1])
  }
  expectTypeOf(neverCalled).returns.resolves.toBeVoid()
})
