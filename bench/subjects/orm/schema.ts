import { relations } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

/** The types of the tables for Kysely. */
export interface Tables {
  item: { id: number; name: string }
  log: { a: number; b: string }
  account: { id: number; cents: number }
}

export const item = sqliteTable('item', { id: integer('id').primaryKey(), name: text('name') })
export const log = sqliteTable('log', { a: integer('a'), b: text('b') })
export const account = sqliteTable('account', { id: integer('id').primaryKey(), cents: integer('cents') })
export const post = sqliteTable('post', {
  id: integer('id').primaryKey(),
  itemId: integer('item_id'),
  title: text('title'),
})
export const itemRelations = relations(item, ({ many }) => ({ posts: many(post) }))
export const postRelations = relations(post, ({ one }) => ({
  item: one(item, { fields: [post.itemId], references: [item.id] }),
}))
export const schema = { item, log, account, post, itemRelations, postRelations }
