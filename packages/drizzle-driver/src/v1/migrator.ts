import type { Client } from '@batonsql/core'
import {
  applyMigrations,
  findPending,
  type MigrateOptions,
  type PendingOptions,
  type PlannedMigration,
} from '../apply-migrations.ts'
import { type InitFailure, initJournal } from '../init-journal.ts'
import {
  findMigrations,
  type MigrationLocation,
  type MigrationSource as Pre1MigrationSource,
} from '../migration-source.ts'
import { journalLayout } from './journal-layout.ts'
import { type MigrationSource, readMigrations, toMigration } from './migration-source.ts'

export type { MigrateOptions, PlannedMigration } from '../apply-migrations.ts'
export type { InitFailure } from '../init-journal.ts'
export { MigrationError } from '../migration-error.ts'
export type { MigrationSource }
export type MigrateConfig = MigrateOptions & MigrationLocation<MigrationSource>
export type PendingConfig = PendingOptions & MigrationLocation<MigrationSource>

/**
 * Applies all pending migrations of Drizzle 1.0 in one transaction, sent as one request after a read-only one (see `transaction` for
 * the exception); if none are pending, it sends only the read-only request. Foreign keys are off during the migrations. Migrations
 * that increase the number of violating rows are rejected. Warns about tables whose foreign keys reference a column that is not
 * unique, because they cannot be checked. May run concurrently. The table of an older Drizzle version is upgraded with the first new
 * migration.
 *
 * With `init: true`, it marks the only migration as applied without running it, as Drizzle's own migrators do for a database
 * that already has its tables. If it cannot do so, `exitCode` of the result gives the reason. With `dryRun: true`, it applies
 * nothing, and returns what it would apply: see `pendingMigrations`.
 *
 * Experimental, like all of `./v1`. The migrations must not take more than 5 s while other writers wait: after that, the server
 * takes the write lock away.
 * @returns the names of the migrations that were applied
 * @throws MigrationError if one fails; Error if a migration was applied with Drizzle before 1.0 and is missing from `config`
 */
export async function migrate(
  db: { readonly $client: Client },
  config: MigrateConfig & { readonly init?: false | undefined; readonly dryRun?: false | undefined },
): Promise<string[]>
export async function migrate(
  db: { readonly $client: Client },
  config: MigrateConfig & { readonly dryRun: true; readonly init?: false | undefined },
): Promise<PlannedMigration[]>
export async function migrate(
  db: { readonly $client: Client },
  config: MigrateConfig & { readonly init: true; readonly dryRun?: false | undefined },
): Promise<InitFailure | undefined>
export async function migrate(
  db: { readonly $client: Client },
  config: MigrateConfig & { readonly init?: boolean | undefined; readonly dryRun?: boolean | undefined },
): Promise<string[] | PlannedMigration[] | InitFailure | undefined> {
  const sources = await findSources(config)
  if (config.init && config.dryRun) throw new TypeError('migrate: `init` cannot be combined with `dryRun`')
  const run = config.dryRun ? findPending : config.init ? initJournal : applyMigrations
  return await run(db.$client, journalLayout, { ...config, sources })
}

/**
 * Returns what `migrate` would apply, for a dry run. Sends one read-only request (several to a schema database), for which a
 * read-only token suffices.
 * @returns the names of the pending migrations, in order
 * @throws MigrationError if another program created the journal's table; with `outOfOrder: 'error'`, also for a migration that is
 * older than an applied one
 */
export async function pendingMigrations(
  db: { readonly $client: Client },
  config: PendingConfig,
): Promise<string[]> {
  const sources = await findSources(config)
  const pending = await findPending(db.$client, journalLayout, { ...config, sources })
  return pending.map(({ tag }) => tag)
}

const findSources = async (location: MigrationLocation<MigrationSource>): Promise<Pre1MigrationSource[]> =>
  (
    await findMigrations(location, readMigrations, { name: 'string', sql: 'string' }, { init: 'boolean' })
  ).map(toMigration)
