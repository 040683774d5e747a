import type { Client } from '@batonsql/core'
import { isFailedAssertion } from '@batonsql/core/adapter'
import { openJournal, type PendingOptions } from './apply-migrations.ts'
import type { JournalLayout } from './migration-journal.ts'
import { type MigrationSource, parseMigration } from './migration-source.ts'

/** Why no migration was marked: the database already has some, or more than one was passed. The codes are Drizzle's own. */
export interface InitFailure {
  readonly exitCode: 'databaseMigrations' | 'localMigrations'
}

/** Marks the first migration as applied without running it, for a database that already has its tables. */
export async function initJournal(
  client: Client,
  layout: JournalLayout,
  { sources, ...config }: PendingOptions & { readonly sources: readonly MigrationSource[] },
): Promise<InitFailure | undefined> {
  const migrations = await Promise.all(sources.map(parseMigration))
  const journal = openJournal(client, layout, config)
  const { prepareTable, appliedCount } = await journal.read(migrations)
  if (appliedCount > 0) return { exitCode: 'databaseMigrations' }
  const [firstMigration, secondMigration] = migrations
  const record = firstMigration && !secondMigration ? [journal.record(firstMigration)] : []
  try {
    await client.batch([...prepareTable, journal.failUnlessCount(0), ...record], {
      timeoutMs: config.timeoutMs ?? Infinity,
    })
  } catch (error) {
    // another migrator wrote first
    if (isFailedAssertion(error, prepareTable.length)) return { exitCode: 'databaseMigrations' }
    throw error
  }
  return secondMigration ? { exitCode: 'localMigrations' } : undefined
}
