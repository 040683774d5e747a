import type { Client } from '@batonsql/core'
import {
  applyMigrations,
  findPending,
  type MigrateOptions,
  type PendingOptions,
} from '../apply-migrations.ts'
import { type InitRefusal, initJournal } from '../init-journal.ts'
import {
  findMigrations,
  type MigrationsAt,
  type MigrationSource as Pre1MigrationSource,
} from '../migration-source.ts'
import { journalLayout } from './journal-layout.ts'
import { type MigrationSource, readMigrations, toMigration } from './migration-source.ts'

export { type MigrateOptions, MigrationError } from '../apply-migrations.ts'
export type { InitRefusal } from '../init-journal.ts'
export type { MigrationSource }
export type MigrateConfig = MigrateOptions & MigrationsAt<MigrationSource>
export type PendingConfig = PendingOptions & MigrationsAt<MigrationSource>

/**
 * Applies the migrations that the database has not seen, all of them in one transaction and one request; with nothing to do
 * it costs one request that only reads. Foreign keys are off meanwhile, and migrations that leave more rows breaking one than
 * before are refused; of tables with an old foreign key that refers to a column that is not unique, it warns.
 * Several deployers may run it at once. A table of Drizzle before 1.0 is brought to 1.0 with the first new migration.
 *
 * With `init: true` it marks the only migration as applied and runs nothing, as Drizzle's own migrators do for a database that
 * has its tables already; `exitCode` says why it did not.
 *
 * Experimental, as all of `./v1`. The whole must not take over 5 s while others want to write: the server takes the write
 * lock away then.
 * @returns the names of the migrations that were applied
 * @throws MigrationError when one fails; Error when the database has seen one, before 1.0, that is not here
 */
export async function migrate(
  db: { readonly $client: Client },
  config: MigrateConfig & { readonly init?: false | undefined },
): Promise<string[]>
export async function migrate(
  db: { readonly $client: Client },
  config: MigrateConfig & { readonly init: true },
): Promise<InitRefusal | undefined>
export async function migrate(
  db: { readonly $client: Client },
  config: MigrateConfig & { readonly init?: boolean | undefined },
): Promise<string[] | InitRefusal | undefined> {
  const sources = await findSources(config)
  const apply = config.init ? initJournal : applyMigrations
  return await apply(db.$client, journalLayout, { ...config, sources })
}

/**
 * Says what `migrate` would apply, for a dry run. Costs one request that only reads; a token that may only read is enough.
 * @returns the names of the migrations that the database has not seen, in order
 * @throws MigrationError for one that is older than one that was applied, with `outOfOrder: 'error'`
 */
export async function pendingMigrations(
  db: { readonly $client: Client },
  config: PendingConfig,
): Promise<string[]> {
  const sources = await findSources(config)
  return await findPending(db.$client, journalLayout, { ...config, sources })
}

const findSources = async (at: MigrationsAt<MigrationSource>): Promise<Pre1MigrationSource[]> =>
  (await findMigrations(at, readMigrations)).map(toMigration)
