import type { Client } from '@batonsql/core'
import {
  applyMigrations,
  findPending,
  type MigrateOptions,
  type PendingOptions,
  type PlannedMigration,
} from './apply-migrations.ts'
import { journalLayout } from './journal-layout.ts'
import {
  findMigrations,
  type MigrationLocation,
  type MigrationSource,
  readMigrations,
  SOURCE_FIELDS,
} from './migration-source.ts'

export type { MigrateOptions, PlannedMigration } from './apply-migrations.ts'
export { MigrationError } from './migration-error.ts'
export type { MigrationSource }
export type MigrateConfig = MigrateOptions & MigrationLocation<MigrationSource>
export type PendingConfig = PendingOptions & MigrationLocation<MigrationSource>

/**
 * Reads in one request (two more if a foreign key cannot be checked) which migrations are pending, and applies all of them in one
 * transaction and one more request. Foreign keys are off during the migrations. Migrations that increase the number of violating rows, or
 * that create a foreign key to a column that is not unique, are rejected; existing tables with such a key cannot be checked, which is
 * warned about. Several processes may run it at the same
 * time. With `transaction: false`, each statement is a transaction and a request of its own, foreign keys are not checked, and only one
 * process may run it.
 *
 * The migrations must not take more than 5 s while other writers wait: after that, the server may give the write lock to one of them.
 * @returns the tags of the migrations that were applied; with `dryRun: true`, which applies nothing, the migrations that would be
 * applied, with their statements
 * @throws MigrationError if one fails or cannot be parsed, or if the table of applied migrations is not Drizzle's
 */
export async function migrate(
  db: { readonly $client: Client },
  config: MigrateConfig & { readonly dryRun?: false | undefined },
): Promise<string[]>
export async function migrate(
  db: { readonly $client: Client },
  config: MigrateConfig & { readonly dryRun: true },
): Promise<PlannedMigration[]>
export async function migrate(
  db: { readonly $client: Client },
  config: MigrateConfig & { readonly dryRun?: boolean | undefined },
): Promise<string[] | PlannedMigration[]> {
  const sources = await findMigrations(config, readMigrations, SOURCE_FIELDS)
  const run = config.dryRun ? findPending : applyMigrations
  return await run(db.$client, journalLayout, { ...config, sources })
}

/**
 * Finds the migrations that `migrate` would apply. Sends one read-only request (several to a schema database, or if a foreign key cannot
 * be checked), for which a read-only token suffices.
 * @returns the tags of the pending migrations, in order
 * @throws MigrationError if a migration cannot be parsed, or if the table of applied migrations is not Drizzle's; with
 * `outOfOrder: 'error'`, if a pending migration is older than one that was applied
 */
export async function pendingMigrations(
  db: { readonly $client: Client },
  config: PendingConfig,
): Promise<string[]> {
  const sources = await findMigrations(config, readMigrations, SOURCE_FIELDS)
  const pending = await findPending(db.$client, journalLayout, { ...config, sources })
  return pending.map(({ tag }) => tag)
}
