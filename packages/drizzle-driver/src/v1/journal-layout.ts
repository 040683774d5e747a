import type { ArrayRow, InStatement } from '@batonsql/core'
import type { JournalLayout, JournalRows } from '../migration-journal.ts'
import type { Migration } from '../migration-source.ts'

/** The table layout of Drizzle 1.0, which identifies migrations by the names of their folders. */
export const journalLayout: JournalLayout = {
  columns: 'id INTEGER PRIMARY KEY, hash text NOT NULL, created_at numeric, name text, applied_at TEXT',
  record: ({ tag, hash, when }) => ({
    hash,
    created_at: when,
    name: tag,
    applied_at: new Date().toISOString(),
  }),
  pending,
  upgrade,
}

function pending(migrations: readonly Migration[], journal: JournalRows): Migration[] {
  // a row without a name is from a version before 1.0, which may also have written it into a table of 1.0
  const applied = new Set(journal.rows.map((row) => row[2] ?? findMigration(row, migrations).tag))
  return migrations.filter(({ tag }) => !applied.has(tag))
}

/** Adds the names to a table from before 1.0, as Drizzle's own migrator does. The time of a row may be NULL. */
function upgrade(table: string, migrations: readonly Migration[], journal: JournalRows): InStatement[] {
  if (journal.layout !== 'unnamed') return []
  return [
    `ALTER TABLE ${table} ADD COLUMN "name" text`,
    `ALTER TABLE ${table} ADD COLUMN "applied_at" TEXT`,
    ...journal.rows.map((row) => ({
      sql: `UPDATE ${table} SET "name" = ? WHERE hash = ? AND created_at IS ?`,
      args: [findMigration(row, migrations).tag, row[0] as string, row[1] as number | null],
    })),
  ]
}

/**
 * Finds the migration of a row without a name: by its time, if exactly one migration has it, or else by its text. The names of folders
 * have seconds, and rows from before 1.0 have milliseconds.
 * @throws Error if there is none
 */
function findMigration([hash, createdAt]: ArrayRow, migrations: readonly Migration[]): Migration {
  const second = Math.floor(Number(createdAt) / 1_000)
  const sameSecond = migrations.filter(({ when }) => Math.floor(when / 1_000) === second)
  const migration =
    sameSecond.length === 1 ? sameSecond[0] : migrations.find((candidate) => candidate.hash === hash)
  if (migration) return migration
  throw new Error(
    `the database has a migration from ${new Date(Number(createdAt)).toJSON() ?? String(createdAt)} (hash ${String(hash)}) that is not among yours`,
  )
}
