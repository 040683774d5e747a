import type { Client } from '@batonsql/core'
import { applyMigrations, type MigrateOptions } from '../apply-migrations.ts'
import { journalLayout } from './journal-layout.ts'
import { type MigrationSource, readMigrations, whenOf } from './migration-source.ts'

export { type MigrateOptions, MigrationError } from '../apply-migrations.ts'
export type { MigrationSource }

/** Where the migrations are, and how to apply them. */
export type MigrateConfig = MigrateOptions &
  (
    | {
        /** Folder that drizzle-kit 1.0 writes, with one folder for each migration. */
        readonly migrationsFolder: string
        readonly migrations?: undefined
      }
    | {
        /** The migrations themselves, in order, for places without a file system. */
        readonly migrations: readonly MigrationSource[]
        readonly migrationsFolder?: undefined
      }
  )

/**
 * Applies the migrations that the database has not seen, all of them in one transaction and one request; with nothing to do
 * it costs one request that only reads. Foreign keys are off meanwhile, and migrations that leave more rows breaking one than
 * before are refused; of tables with an old foreign key that refers to a column that is not unique, it warns.
 * Several deployers may run it at once. A table of Drizzle before 1.0 is brought to 1.0 with the first new migration.
 *
 * Experimental, as all of `./v1`. The whole must not take over 5 s while others want to write: the server takes the write
 * slot away then.
 * @returns the names of the migrations that were applied
 * @throws MigrationError when one fails; Error when the database has seen one, before 1.0, that is not here
 */
export async function migrate(db: { readonly $client: Client }, config: MigrateConfig): Promise<string[]> {
  const { migrations, migrationsFolder, ...options } = config
  if ((migrations === undefined) === (migrationsFolder === undefined))
    throw new TypeError('expected either `migrationsFolder` or `migrations`')
  const found = migrations ?? (await readMigrations(migrationsFolder))
  const sources = found.map(({ name, sql }) => ({ tag: name, sql, when: whenOf(name) }))
  return await applyMigrations(db.$client, journalLayout, { ...options, sources })
}
