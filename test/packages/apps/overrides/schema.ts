import { integer, real, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const person = sqliteTable('person', {
  id: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull().unique(),
  score: real(),
})
