import type { Client } from '@batonsql/core'
import { isFailedAssertion } from '@batonsql/core/adapter'
import { type JournalLayout, MigrationJournal } from './migration-journal.ts'
import { type MigrationSource, parseMigration } from './migration-source.ts'

/** Why no migration was marked: the database already has some, or more than one was passed. The codes are Drizzle's own. */
export interface InitFailure {
  readonly exitCode: 'databaseMigrations' | 'localMigrations'
}

/** Marks the first migration as applied without running it, for a database that already has its tables. */
export async function initJournal(
  client: Client,
  layout: JournalLayout,
  {
    sources,
    migrationsTable: name = '__drizzle_migrations',
    timeoutMs = Infinity,
  }: {
    readonly sources: readonly MigrationSource[]
    readonly migrationsTable?: string | undefined
    readonly timeoutMs?: number | undefined
  },
): Promise<InitFailure | undefined> {
  const migrations = await Promise.all(sources.map(parseMigration))
  const journal = new MigrationJournal(client, layout, { name, timeoutMs })
  const { prepareTable, appliedCount } = await journal.read(migrations)
  if (appliedCount > 0) return { exitCode: 'databaseMigrations' }
  const [firstMigration, secondMigration] = migrations
  const record = firstMigration && !secondMigration ? [journal.record(firstMigration)] : []
  try {
    await client.batch([...prepareTable, journal.failUnlessCount(0), ...record], { timeoutMs })
  } catch (error) {
    // another migrator wrote first
    if (isFailedAssertion(error, prepareTable.length)) return { exitCode: 'databaseMigrations' }
    throw error
  }
  return secondMigration ? { exitCode: 'localMigrations' } : undefined
}
