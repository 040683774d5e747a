import type { Client } from '@batonsql/core'
import { applyMigrations, findPending, type MigrateOptions, type PendingOptions } from './apply-migrations.ts'
import { journalLayout } from './journal-layout.ts'
import {
  findMigrations,
  type MigrationSource,
  type MigrationsAt,
  readMigrations,
} from './migration-source.ts'

export { type MigrateOptions, MigrationError } from './apply-migrations.ts'
export type { MigrationSource }
export type MigrateConfig = MigrateOptions & MigrationsAt<MigrationSource>
export type PendingConfig = PendingOptions & MigrationsAt<MigrationSource>

/**
 * Applies the migrations that the database has not seen, all of them in one transaction and one request; with nothing to do
 * it costs one request that only reads. Foreign keys are off meanwhile, and migrations that leave more rows breaking one than
 * before are refused; of tables with an old foreign key that refers to a column that is not unique, it warns.
 * Several deployers may run it at once.
 *
 * The whole must not take over 5 s while others want to write: the server takes the write lock away then.
 * @returns the tags of the migrations that were applied
 * @throws MigrationError when one fails
 */
export async function migrate(db: { readonly $client: Client }, config: MigrateConfig): Promise<string[]> {
  const sources = await findMigrations(config, readMigrations)
  return await applyMigrations(db.$client, journalLayout, { ...config, sources })
}

/**
 * Says what `migrate` would apply, for a dry run. Costs one request that only reads; a token that may only read is enough.
 * @returns the tags of the migrations that the database has not seen, in order
 * @throws MigrationError for one that is older than one that was applied, with `outOfOrder: 'error'`
 */
export async function pendingMigrations(
  db: { readonly $client: Client },
  config: PendingConfig,
): Promise<string[]> {
  const sources = await findMigrations(config, readMigrations)
  return await findPending(db.$client, journalLayout, { ...config, sources })
}
