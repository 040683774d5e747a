import type { RegistryFile } from './registry-file.ts'

/** Changes of the file's schema, in order; `PRAGMA user_version` counts those that were made. */
const STEPS: readonly (readonly string[])[] = [
  [
    `CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL)`,
    `CREATE TABLE user (id TEXT PRIMARY KEY, username TEXT NOT NULL UNIQUE, name TEXT NOT NULL, email TEXT NOT NULL)`,
    `CREATE TABLE organization (
      id TEXT PRIMARY KEY, slug TEXT NOT NULL UNIQUE, name TEXT NOT NULL, type TEXT NOT NULL, plan TEXT NOT NULL,
      timeline TEXT NOT NULL, overages INTEGER NOT NULL, "requireMfa" INTEGER NOT NULL,
      "blockedReads" INTEGER NOT NULL, "blockedWrites" INTEGER NOT NULL, customer TEXT, "createdAt" INTEGER NOT NULL)`,
    `CREATE TABLE member (
      id TEXT PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization, user TEXT NOT NULL REFERENCES user,
      role TEXT NOT NULL)`,
    `CREATE TABLE invite (
      id TEXT PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization, email TEXT NOT NULL,
      role TEXT NOT NULL, "createdAt" INTEGER NOT NULL)`,
    `CREATE TABLE database_group (
      id TEXT PRIMARY KEY, organization TEXT NOT NULL REFERENCES organization, name TEXT NOT NULL,
      "primary" TEXT NOT NULL, locations TEXT NOT NULL, "deleteProtection" INTEGER NOT NULL,
      "isArchived" INTEGER NOT NULL, key TEXT NOT NULL, "createdAt" INTEGER NOT NULL, UNIQUE (organization, name))`,
    // a group can be gone while its databases are still being removed
    `CREATE TABLE database (
      id TEXT PRIMARY KEY, organization TEXT NOT NULL, "group" TEXT NOT NULL, name TEXT NOT NULL,
      state TEXT NOT NULL CHECK (state IN ('creating', 'ready', 'deleting', 'lost')), configuration TEXT NOT NULL,
      parent TEXT, "isSchema" INTEGER NOT NULL, schema TEXT, key TEXT NOT NULL, "createdAt" INTEGER NOT NULL,
      "readyAt" INTEGER NOT NULL)`,
    `CREATE UNIQUE INDEX database_by_name ON database (organization, name) WHERE state <> 'deleting'`,
    `CREATE TABLE api_token (
      id TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES user, name TEXT NOT NULL, organization TEXT,
      "group" TEXT, scopes TEXT, "createdAt" INTEGER NOT NULL, UNIQUE (user, name))`,
    `CREATE TABLE audit_log (
      id INTEGER PRIMARY KEY, organization TEXT NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL,
      origin TEXT NOT NULL, author TEXT NOT NULL, data TEXT NOT NULL, created_at INTEGER NOT NULL)`,
    `CREATE INDEX audit_log_by_organization ON audit_log (organization, id)`,
    // what a back end has counted when it was last asked, and which count that was
    `CREATE TABLE usage_sample (
      database TEXT PRIMARY KEY, epoch TEXT NOT NULL, rows_read INTEGER NOT NULL, rows_written INTEGER NOT NULL,
      storage_bytes INTEGER NOT NULL)`,
    // hours since 1970; the organization has to pay for databases that are gone, too
    `CREATE TABLE usage_hour (
      database TEXT NOT NULL, hour INTEGER NOT NULL, organization TEXT NOT NULL, rows_read INTEGER NOT NULL,
      rows_written INTEGER NOT NULL, bytes_synced INTEGER NOT NULL, PRIMARY KEY (database, hour)) WITHOUT ROWID`,
    `CREATE INDEX usage_hour_by_organization ON usage_hour (organization, hour)`,
  ],
  // a time by a clock that may be set back
  [`ALTER TABLE database DROP COLUMN "readyAt"`],
]

/** Brings the file to the newest schema. @throws Error when a newer version has written it */
export function migrate(file: RegistryFile): void {
  const [[done] = []] = file.all('PRAGMA user_version')
  const version = Number(done)
  if (version > STEPS.length) throw new Error('the data directory was written by a newer version of Baton')
  for (const [at, statements] of STEPS.entries()) {
    if (at < version) continue
    file.transaction(() => {
      for (const sql of statements) file.run(sql)
      file.run(`PRAGMA user_version = ${at + 1}`)
    })
  }
}
