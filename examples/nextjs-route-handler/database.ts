import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const guest = sqliteTable('guest', { id: integer().primaryKey(), name: text().notNull().unique() })

const globalStore = globalThis as { guestDatabase?: BatonDatabase }

/**
 * Returns one database for the whole process, even if `next dev` reloads this module. It is created with the first request,
 * because `next build` also loads modules, and has no database.
 */
export const database = (): BatonDatabase =>
  (globalStore.guestDatabase ??= drizzle({
    connection: { url: process.env['DATABASE_URL'] ?? '', authToken: process.env['DATABASE_TOKEN'] },
  }))
