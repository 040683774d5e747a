import type { RegistryFile, RegistryValue } from './registry-file.ts'

/** `PRAGMA user_version` of the file. */
const SCHEMA_VERSION = 4

/** Rows are stored as JSON, by kind; `rowid` preserves the order in which they were created. */
const CREATE_RECORDS = `CREATE TABLE record (
  kind TEXT NOT NULL, id TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, id))`

const OTHER_TABLES = [
  'CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL)',
  `CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY, organization TEXT NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL,
    origin TEXT NOT NULL, author TEXT NOT NULL, data TEXT NOT NULL, created_at INTEGER NOT NULL)`,
  'CREATE INDEX audit_log_by_organization ON audit_log (organization, id)',
  // the back end's counts at the last sample; `epoch` identifies the process that counted
  `CREATE TABLE usage_sample (
    database TEXT PRIMARY KEY, epoch TEXT NOT NULL, rows_read INTEGER NOT NULL, rows_written INTEGER NOT NULL,
    storage_bytes INTEGER NOT NULL)`,
]

// hours since the Unix epoch; usage by removed or transferred databases still belongs to the organization
const CREATE_USAGE_HOUR = `CREATE TABLE usage_hour (
  database TEXT NOT NULL, hour INTEGER NOT NULL, organization TEXT NOT NULL, rows_read INTEGER NOT NULL,
  rows_written INTEGER NOT NULL, bytes_synced INTEGER NOT NULL, PRIMARY KEY (database, hour, organization)) WITHOUT ROWID`
const CREATE_USAGE_INDEX = 'CREATE INDEX usage_hour_by_organization ON usage_hour (organization, hour)'

/** Tables of versions 1 and 2, which had a column for each field. Referenced kinds come first. */
const OLD_TABLES = ['api_token', 'database', 'database_group', 'invite', 'member', 'organization', 'user']
const OLD_BOOLEAN_COLUMNS = [
  'overages',
  'requireMfa',
  'blockedReads',
  'blockedWrites',
  'deleteProtection',
  'isArchived',
  'isSchema',
]
const OLD_JSON_COLUMNS = ['customer', 'locations', 'key', 'configuration', 'parent', 'scopes']

/** Upgrades the file to the newest schema. @throws Error if it was written by a newer version */
export function migrate(file: RegistryFile): void {
  const version = file.all<{ user_version: number }>('PRAGMA user_version')[0]?.user_version ?? 0
  if (version > SCHEMA_VERSION) throw new Error('the data directory was written by a newer version of Baton')
  if (version === SCHEMA_VERSION) return
  file.transaction(() => {
    if (version < 3) file.run(CREATE_RECORDS)
    if (version === 0)
      for (const sql of [...OTHER_TABLES, CREATE_USAGE_HOUR, CREATE_USAGE_INDEX]) file.run(sql)
    else splitUsage(file)
    if (version === 1 || version === 2) for (const table of OLD_TABLES) migrateTable(file, table)
    file.run(`PRAGMA user_version = ${SCHEMA_VERSION}`)
  })
}

/** Upgrades to version 4, in which an hour can be split between organizations. */
function splitUsage(file: RegistryFile): void {
  file.run('ALTER TABLE usage_hour RENAME TO old_usage_hour')
  file.run(CREATE_USAGE_HOUR)
  file.run('INSERT INTO usage_hour SELECT * FROM old_usage_hour')
  // also drops its index
  file.run('DROP TABLE old_usage_hour')
  file.run(CREATE_USAGE_INDEX)
}

type OldRow = Readonly<Record<string, RegistryValue>> & { readonly id: string }

function migrateTable(file: RegistryFile, table: string): void {
  for (const oldRow of file.all<OldRow>(`SELECT * FROM ${table} ORDER BY rowid`)) {
    const fields = Object.entries(oldRow).map(([name, value]) => {
      if (OLD_BOOLEAN_COLUMNS.includes(name)) return [name, value !== 0]
      return [name, OLD_JSON_COLUMNS.includes(name) && typeof value === 'string' ? JSON.parse(value) : value]
    })
    const row = JSON.stringify(Object.fromEntries(fields))
    file.run('INSERT INTO record (kind, id, value) VALUES (?, ?, ?)', [table, oldRow.id, row])
  }
  file.run(`DROP TABLE ${table}`)
}
