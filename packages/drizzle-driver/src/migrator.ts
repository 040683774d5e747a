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
} from './migration-source.ts'

export type { MigrateOptions, PlannedMigration } from './apply-migrations.ts'
export { MigrationError } from './migration-error.ts'
export type { MigrationSource }
export type MigrateConfig = MigrateOptions & MigrationLocation<MigrationSource>
export type PendingConfig = PendingOptions & MigrationLocation<MigrationSource>

/**
 * Applies all pending migrations in one transaction and one request; if none are pending, it sends one read-only request.
 * Foreign keys are off during the migrations. Migrations that increase the number of violating rows are rejected. Warns about tables
 * whose foreign keys reference a column that is not unique, because they cannot be checked. May run concurrently.
 *
 * The migrations must not take more than 5 s while other writers wait: after that, the server takes the write lock away.
 * With `dryRun: true` it applies nothing, and returns what it would apply: see `pendingMigrations`.
 * @returns the tags of the migrations that were applied
 * @throws MigrationError if one fails
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
  const sources = await findMigrations(config, readMigrations)
  const run = config.dryRun ? findPending : applyMigrations
  return await run(db.$client, journalLayout, { ...config, sources })
}

/**
 * Returns what `migrate` would apply, for a dry run. Sends one read-only request, for which a read-only token suffices.
 * @returns the tags of the pending migrations, in order
 * @throws MigrationError with `outOfOrder: 'error'`, for one that is older than an applied one
 */
export async function pendingMigrations(
  db: { readonly $client: Client },
  config: PendingConfig,
): Promise<string[]> {
  const sources = await findMigrations(config, readMigrations)
  const pending = await findPending(db.$client, journalLayout, { ...config, sources })
  return pending.map(({ tag }) => tag)
}
