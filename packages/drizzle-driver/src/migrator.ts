import type { Client } from '@batonsql/core'
import { applyMigrations, type MigrateOptions } from './apply-migrations.ts'
import { journalLayout } from './journal-layout.ts'
import { type MigrationSource, readMigrations } from './migration-source.ts'

export { type MigrateOptions, MigrationError } from './apply-migrations.ts'
export type { MigrationSource }

/** Where the migrations are, and how to apply them. */
export type MigrateConfig = MigrateOptions &
  (
    | {
        /** Folder that drizzle-kit writes, with `meta/_journal.json`. */
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
 * Several deployers may run it at once.
 *
 * The whole must not take over 5 s while others want to write: the server takes the write slot away then.
 * @returns the tags of the migrations that were applied
 * @throws MigrationError when one fails
 */
export async function migrate(db: { readonly $client: Client }, config: MigrateConfig): Promise<string[]> {
  const { migrations, migrationsFolder, ...options } = config
  if ((migrations === undefined) === (migrationsFolder === undefined))
    throw new TypeError('expected either `migrationsFolder` or `migrations`')
  const sources = migrations ?? (await readMigrations(migrationsFolder))
  return await applyMigrations(db.$client, journalLayout, { ...options, sources })
}
