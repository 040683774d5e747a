import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const guest = sqliteTable('guest', { id: integer().primaryKey(), name: text().notNull().unique() })

const kept = globalThis as { guestDatabase?: BatonDatabase }

/**
 * One for the process, also when `next dev` loads this module again. It is made for the first request: `next build` loads
 * modules, too, and has no database.
 */
export const database = (): BatonDatabase =>
  (kept.guestDatabase ??= drizzle({
    connection: { url: process.env['DATABASE_URL'] ?? '', authToken: process.env['DATABASE_TOKEN'] },
  }))
