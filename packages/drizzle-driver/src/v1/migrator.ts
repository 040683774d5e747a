import type { Client } from '@batonsql/core'
import { applyMigrations, type MigrateOptions } from '../apply-migrations.ts'
import { findMigrations, type MigrationsAt } from '../migration-source.ts'
import { journalLayout } from './journal-layout.ts'
import { type MigrationSource, readMigrations, toMigration } from './migration-source.ts'

export { type MigrateOptions, MigrationError } from '../apply-migrations.ts'
export type { MigrationSource }
export type MigrateConfig = MigrateOptions & MigrationsAt<MigrationSource>

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
  const sources = await findMigrations(config, readMigrations)
  return await applyMigrations(db.$client, journalLayout, { ...config, sources: sources.map(toMigration) })
}
