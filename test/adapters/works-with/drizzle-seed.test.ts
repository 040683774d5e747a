import { drizzle, isForeignKeyViolation } from '@batonsql/drizzle-driver'
import { count, eq, sql } from 'drizzle-orm'
import { integer, real, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { reset, seed } from 'drizzle-seed'
import { expect, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'

const author = sqliteTable('author', { id: integer().primaryKey(), name: text().notNull() })
const post = sqliteTable('post', {
  id: integer().primaryKey(),
  authorId: integer()
    .notNull()
    .references(() => author.id),
  title: text().notNull(),
  rating: real().notNull(),
  isPublic: integer({ mode: 'boolean' }).notNull(),
})
const schema = { author, post }

test('drizzle-seed fills tables identically for the same seed, and empties them', async () => {
  const { config } = await (await openTestServer()).createDatabase()
  const db = drizzle({ connection: config })
  await db.batch([
    db.run(sql`create table author (id integer primary key, name text not null)`),
    db.run(sql`create table post (id integer primary key, authorId integer not null references author (id),
      title text not null, rating real not null, isPublic integer not null)`),
  ])

  const fill = (): Promise<void> =>
    seed(db, schema, { count: 20, seed: 7 }).refine((f) => ({
      author: { count: 20, columns: { name: f.fullName() }, with: { post: 10 } },
      post: { columns: { rating: f.number({ minValue: 0, maxValue: 5, precision: 10 }) } },
    }))
  await fill()
  const posts = await db.select().from(post).orderBy(post.id)
  expect(posts).toHaveLength(200)
  const orphans = db
    .select({ n: count() })
    .from(post)
    .leftJoin(author, eq(author.id, post.authorId))
    .where(sql`author.id is null`)
  expect(await orphans).toEqual([{ n: 0 }])

  // reset() empties the tables in the order of the schema, and its pragma for foreign keys lasts for only one request
  await expect(reset(db, schema)).rejects.toSatisfy(isForeignKeyViolation)
  await expect(db.transaction((tx) => reset(tx, schema))).rejects.toMatchObject({
    cause: { message: expect.stringContaining('foreign_keys has no effect inside a transaction') as string },
  })
  await db.$client.batch(['delete from author', 'delete from post'], { foreignKeys: 'off' })
  expect(await db.$count(post)).toBe(0)
  expect(await db.$count(author)).toBe(0)
  await fill()
  expect(await db.select().from(post).orderBy(post.id)).toEqual(posts)
  await reset(db, { post, author })
  expect(await db.$count(post)).toBe(0)
  await db.$client.close()
})

test('a failing insert rejects with the reason', async () => {
  const { config } = await (await openTestServer()).createDatabase()
  const db = drizzle({ connection: config })
  await expect(seed(db, { author }, { count: 3 })).rejects.toThrow(/author/)
  await db.$client.close()
})
