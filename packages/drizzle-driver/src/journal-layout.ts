import type { JournalLayout, JournalRows } from './migration-journal.ts'
import type { Migration } from './migration-source.ts'

/** The table layout of Drizzle before 1.0. It also works with the columns that 1.0 adds. */
export const journalLayout: JournalLayout = {
  columns: 'id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric',
  record: ({ hash, when }) => ({ hash, created_at: when }),
  pending,
  upgrade: () => [],
}

/**
 * Returns the pending migrations. A migration is identified by the time of its journal entry or, if that was edited, by the hash of
 * its text. An applied migration whose text was changed is not applied again.
 */
function pending(migrations: readonly Migration[], { rows }: JournalRows): Migration[] {
  const times = new Set(rows.map(([, when]) => Number(when)))
  const applied = migrations.filter(({ when }) => times.has(when))
  const appliedTimes = new Set(applied.map(({ when }) => when))
  const hashes = new Set(rows.filter(([, when]) => !appliedTimes.has(Number(when))).map(([hash]) => hash))
  return migrations.filter(({ when, hash }) => !times.has(when) && !hashes.has(hash))
}
