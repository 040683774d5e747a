import { drizzle, int64 } from '@batonsql/drizzle-driver/v1'
import { defineRelations } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { expectTypeOf, test } from 'vitest'

// Relational queries, which differ in 1.0.

const users = sqliteTable('users', { id: integer().primaryKey(), name: text().notNull(), big: int64() })
const posts = sqliteTable('posts', {
  id: integer().primaryKey(),
  authorId: integer().notNull(),
  title: text().notNull(),
})
const relations = defineRelations({ users, posts }, (r) => ({
  users: { posts: r.many.posts() },
  posts: { author: r.one.users({ from: r.posts.authorId, to: r.users.id }) },
}))
const db = drizzle({ connection: 'http://127.0.0.1', relations })
type User = typeof users.$inferSelect

test('relational queries', () => {
  const found = () => db.query.users.findMany({ with: { posts: { columns: { title: true } } } })
  expectTypeOf(found).returns.resolves.toEqualTypeOf<
    { [K in keyof User | 'posts']: K extends keyof User ? User[K] : { title: string }[] }[]
  >()
  const first = () => db.query.posts.findFirst({ with: { author: true } })
  expectTypeOf(first).returns.resolves.extract<object>().toHaveProperty('author')
  // @ts-expect-error no such relation
  expectTypeOf(() => db.query.users.findMany({ with: { pets: true } }))
})

test('in a batch and in a transaction', () => {
  const results = () => db.batch([db.query.users.findFirst({ columns: { name: true } })])
  expectTypeOf(results).returns.resolves.toEqualTypeOf<[{ name: string } | undefined]>()
  const inside = () => db.transaction((tx) => tx.query.users.findFirst())
  expectTypeOf(inside).returns.resolves.toEqualTypeOf<User | undefined>()
})
