import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const guest = sqliteTable('guest', { id: integer().primaryKey(), name: text().notNull().unique() })
export const visit = sqliteTable('visit', { id: integer().primaryKey(), method: text().notNull() })
