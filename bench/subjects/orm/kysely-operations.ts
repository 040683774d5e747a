import { type Dialect, Kysely, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { type Subject, toId } from '../../lib/subject.ts'
import type { Tables } from './schema.ts'

/** Opens a subject that performs the operations with Kysely, for any dialect. */
export async function openWithDialect(dialect: Dialect): Promise<Subject> {
  const db = new Kysely<Tables>({ dialect })
  const migrations: Record<string, Migration> = { '1': { up: async () => {} } }
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } })
  await migrator.migrateToLatest()
  return {
    operations: {
      ormSelect: (index) => db.selectFrom('item').selectAll().where('id', '=', toId(index)).execute(),
      ormInsert: (index) =>
        db
          .insertInto('log')
          .values({ a: toId(index), b: 'text' })
          .returningAll()
          .execute(),
      ormTransaction: (index) =>
        db.transaction().execute(async (tx) => {
          await tx.selectFrom('account').select('cents').where('id', '=', toId(index)).execute()
          for (const amount of [-1, 1]) {
            await tx
              .updateTable('account')
              .set({ cents: sql`cents + ${amount}` })
              .where('id', '=', toId(index))
              .execute()
          }
        }),
      ormMigrate: async () => {
        const { error } = await migrator.migrateToLatest()
        if (error) throw error as Error
      },
    },
    close: () => db.destroy(),
  }
}
