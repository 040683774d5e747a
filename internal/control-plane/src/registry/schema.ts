import type { RegistryFile } from './registry-file.ts'

/** `PRAGMA user_version` of the file. Files with a lower version were written only by unpublished versions of Baton. */
const SCHEMA_VERSION = 4

const TABLES = [
  // rows are stored as JSON, by kind; `rowid` preserves the order in which they were created
  `CREATE TABLE record (
    kind TEXT NOT NULL, id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, id))`,
  'CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL)',
  `CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY, organization TEXT NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL,
    origin TEXT NOT NULL, author TEXT NOT NULL, data TEXT NOT NULL, created_at INTEGER NOT NULL)`,
  'CREATE INDEX audit_log_by_organization ON audit_log (organization, id)',
  // the back end's counts at the last sample; `epoch` identifies the process that counted
  `CREATE TABLE usage_sample (
    database TEXT PRIMARY KEY, epoch TEXT NOT NULL, rows_read INTEGER NOT NULL, rows_written INTEGER NOT NULL,
    storage_bytes INTEGER NOT NULL)`,
  // hours since the Unix epoch; usage by removed or transferred databases still belongs to the organization
  `CREATE TABLE usage_hour (
    database TEXT NOT NULL, hour INTEGER NOT NULL, organization TEXT NOT NULL, rows_read INTEGER NOT NULL,
    rows_written INTEGER NOT NULL, bytes_synced INTEGER NOT NULL, PRIMARY KEY (database, hour, organization)) WITHOUT ROWID`,
  'CREATE INDEX usage_hour_by_organization ON usage_hour (organization, hour)',
]

/** Creates the tables of a new file. @throws Error if the file was written by another version */
export function createTables(file: RegistryFile): void {
  const version = file.all<{ user_version: number }>('PRAGMA user_version')[0]?.user_version ?? 0
  if (version === SCHEMA_VERSION) return
  if (version !== 0)
    throw new Error(
      `the data directory was written by ${version > SCHEMA_VERSION ? 'a newer' : 'an unpublished'} version of Baton`,
    )
  file.transaction(() => {
    for (const sql of [...TABLES, `PRAGMA user_version = ${SCHEMA_VERSION}`]) file.run(sql)
  })
}
