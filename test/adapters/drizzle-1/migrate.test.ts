import { createHash } from 'node:crypto'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient } from '@batonsql/core'
import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver/v1'
import {
  MigrationError,
  type MigrationSource,
  migrate,
  pendingMigrations,
} from '@batonsql/drizzle-driver/v1/migrator'
import { sql } from 'drizzle-orm'
import { drizzle as libsqlDrizzle } from 'drizzle-orm/libsql/http'
import { migrate as drizzleMigrate } from 'drizzle-orm/libsql/migrator'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { countRequests } from '../../support/fixtures.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { openTestServer, type TestDatabase, type TestServer } from '../../support/test-server.ts'

const folder = fileURLToPath(new URL('../../fixtures/drizzle-1-migrations', import.meta.url))
const names = ['20260917101500_init', '20260918101500_posts']
let server: TestServer
let database: TestDatabase
let db: BatonDatabase

beforeEach(async () => {
  server ??= await openTestServer()
  database = await server.createDatabase()
  db = drizzle(createClient(database.config))
})
afterEach(() => db.$client.close())

const countRequestsOf = (work: () => Promise<unknown>): Promise<number> => countRequests(database, work)
const createA: MigrationSource = { name: '20260101000000_one', sql: 'create table a (id integer)' }
const createB: MigrationSource = { name: '20260101000000_two', sql: 'create table b (id integer)' }
const readJournal = () => db.values(sql`select hash, created_at, name from __drizzle_migrations order by id`)
const journalOf = (files: ReturnType<typeof readMigrationFiles>) =>
  files.map(({ hash, folderMillis, name }) => [hash, folderMillis, name])

test.each<[object, string]>([
  [{ dryrun: true }, 'unknown option dryrun; the options are'],
  [{ outOfOrder: 'reject' }, "outOfOrder must be 'apply' or 'error', not 'reject'"],
  [{ migrations: [{ name: createA.name }] }, 'migrations[0].sql must be a string, not undefined'],
  [{ migrations: [{ ...createA, name: 5 }] }, 'migrations[0].name must be a string, not number'],
  [{ migrations: [createA, null] }, 'migrations[1].name must be a string, not undefined'],
  [{ migrations: { createA } }, 'migrations must be an array, not a value of type Object'],
])('rejects the option %o', async (options, message) => {
  const config = { migrations: [createA], ...options }
  await expect(migrate(db, config)).rejects.toThrow(message)
  await expect(pendingMigrations(db, config)).rejects.toThrow(message)
  expect(await db.values(sql`select name from sqlite_schema where name = 'a'`)).toEqual([])
})

test('pending migrations are listed, and nothing is changed', async () => {
  const reversed = await pendingMigrations(db, { migrations: [createB, createA] })
  expect(reversed).toEqual([createB.name, createA.name])
  await migrate(db, { migrations: [createA] })
  expect(await pendingMigrations(db, { migrations: [createA, createB] })).toEqual([createB.name])
  expect(await migrate(db, { migrations: [createA, createB], dryRun: true })).toEqual([
    { tag: createB.name, statements: [createB.sql] },
  ])
  // @ts-expect-error not both
  const both = migrate(db, { migrations: [createA], dryRun: true, init: true })
  await expect(both).rejects.toThrow('cannot be combined')
  expect(await db.values(sql`select name from sqlite_schema where name = 'b'`)).toEqual([])
})

test('migrating a drizzle-kit 1.0 folder takes two requests the first time, then one', async () => {
  const migratesTo = (expected: string[]) => () =>
    expect(migrate(db, { migrationsFolder: folder })).resolves.toEqual(expected)
  expect(await countRequestsOf(migratesTo(names))).toBe(2)
  expect(await countRequestsOf(migratesTo([]))).toBe(1)
  expect(await readJournal()).toEqual(journalOf(readMigrationFiles({ migrationsFolder: folder })))
})

test('rebuilding a parent table keeps every row of its cascading children', async () => {
  const [init] = readMigrationFiles({ migrationsFolder: folder })
  await migrate(db, { migrations: [{ name: names[0]!, sql: init!.sql.join('--> statement-breakpoint') }] })
  await db.run(sql`insert into parent values (1, 5)`)
  await db.run(sql`insert into child values (1, 1), (2, 1)`)
  expect(await migrate(db, { migrationsFolder: folder })).toEqual([names[1]])
  expect(await db.values(sql`select count(*) from child`)).toEqual([[2]])
  expect(await db.values(sql`select typeof(age) from parent`)).toEqual([['text']])
})

test.each(['before', 'after'])('Drizzle’s own migrator can run %s ours', async (order) => {
  const libsqlDb = libsqlDrizzle({ connection: database as { url: string } })
  const steps = [
    () => drizzleMigrate(libsqlDb, { migrationsFolder: folder }),
    () => migrate(db, { migrationsFolder: folder }),
  ]
  for (const step of order === 'before' ? steps : steps.reverse()) await step()
  expect(await readJournal()).toEqual(journalOf(readMigrationFiles({ migrationsFolder: folder })))
})

describe('a journal from Drizzle before 1.0', () => {
  const createOldTable = sql`create table __drizzle_migrations (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric)`

  test('is read, and upgraded to 1.0 by the next migration', async () => {
    const [init] = readMigrationFiles({ migrationsFolder: folder })
    await db.run(createOldTable)
    for (const statement of init!.sql) await db.run(sql.raw(statement))
    await db.run(
      sql`insert into __drizzle_migrations (hash, created_at) values (${init!.hash}, ${init!.folderMillis + 789})`,
    )
    expect(await migrate(db, { migrationsFolder: folder })).toEqual([names[1]])
    expect(await db.values(sql`select name from __drizzle_migrations order by created_at`)).toEqual(
      names.map((name) => [name]),
    )
    expect(await migrate(db, { migrationsFolder: folder })).toEqual([])
  })

  test.each([
    [5, '1970-01-01T00:00:00.005Z'],
    ['yesterday', 'yesterday'],
  ])('with an unknown migration, from %s, is rejected', async (createdAt, time) => {
    await db.run(createOldTable)
    await db.run(sql`insert into __drizzle_migrations (hash, created_at) values ('x', ${createdAt})`)
    await expect(migrate(db, { migrationsFolder: folder })).rejects.toThrow(
      `a migration from ${time} (hash x) that is not among yours`,
    )
    await expect(db.get(sql`select * from parent`)).rejects.toThrow()
  })
})

const broken = {
  name: '20260102000000_broken',
  sql: 'create table c (id integer);insert into nowhere values (1)',
}

test('a migration that a table from before 1.0 has without a time is named, and not applied again', async () => {
  const hash = createHash('sha256').update(createA.sql).digest('hex')
  await db.run(
    sql`create table __drizzle_migrations (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric)`,
  )
  await db.run(sql`insert into __drizzle_migrations (hash) values (${hash})`)
  expect(await migrate(db, { migrations: [createA, createB] })).toEqual([createB.name])
  expect(await migrate(db, { migrations: [createA, createB] })).toEqual([])
})

test('a migration that a version before 1.0 has recorded in a table of 1.0 is not applied again', async () => {
  await migrate(db, { migrations: [createA] })
  await db.run(sql`update __drizzle_migrations set name = null`)
  expect(await migrate(db, { migrations: [createA, createB] })).toEqual([createB.name])
  expect(await pendingMigrations(db, { migrations: [createA, createB] })).toEqual([])
})

test('the error names the failing statement, and no part of any migration is kept', async () => {
  const migrating = migrate(db, { migrations: [createA, broken] })
  const error: unknown = await migrating.catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(MigrationError)
  expect(error).toMatchObject({ migration: broken.name, statementIndex: 1 })
  expect(await db.values(sql`select name from sqlite_schema where name in ('a', 'c')`)).toEqual([])
})

test('two migrations from the same second are distinct; concurrent deployments apply each once', async () => {
  await migrate(db, { migrations: [createA] })
  const applied = await Promise.all(
    Array.from({ length: 5 }, () => migrate(db, { migrations: [createA, createB] })),
  )
  expect(applied.filter((names) => names.length > 0)).toEqual([[createB.name]])
})

test('a linked folder is a migration, and a file or an empty folder is not, as in Drizzle', async () => {
  const copy = createTemporaryDirectory(onTestFinished)
  for (const name of names) await symlink(join(folder, name), join(copy, name), 'junction')
  await writeFile(join(copy, 'meta'), '')
  await mkdir(join(copy, 'empty'))
  const expected = readMigrationFiles({ migrationsFolder: copy }).map(({ name }) => name)
  expect(expected).toEqual(names)
  expect(await pendingMigrations(db, { migrationsFolder: copy })).toEqual(expected)
})

test('folders with another layout, and names without a timestamp, are rejected', async () => {
  const oldFolder = fileURLToPath(new URL('../../fixtures/drizzle-cascade/migrations', import.meta.url))
  await expect(migrate(db, { migrationsFolder: oldFolder })).rejects.toThrow('drizzle-kit up')
  await expect(migrate(db, { migrationsFolder: './nowhere' })).rejects.toThrow('./nowhere')
  await expect(migrate(db, { migrations: [{ ...createA, name: 'one' }] })).rejects.toThrow('YYYYMMDDHHMMSS')
})

test('a migration that a merge inserted between applied ones is applied, or rejected on request', async () => {
  const later: MigrationSource = { name: '20260301000000_later', sql: 'create table c (id integer)' }
  await migrate(db, { migrations: [createA, later] })
  const merged = [createA, { ...createB, name: '20260201000000_two' }, later]
  const inOrder = migrate(db, { migrations: merged, outOfOrder: 'error' })
  await expect(inOrder).rejects.toThrow('20260201000000_two is older')
  expect(await migrate(db, { migrations: merged })).toEqual(['20260201000000_two'])
})

test('foreign keys are checked, except for a table whose key cannot be checked', async () => {
  const warnings: string[] = []
  const onWarning = (message: string): void => void warnings.push(message)
  const init = 'create table p (id integer primary key); create table c (p integer references p)'
  const deletion = { name: '20260102000000_orphan', sql: 'delete from p' }
  await migrate(db, { migrations: [{ ...createA, sql: init }] })
  await db.batch([db.run(sql`insert into p values (1)`), db.run(sql`insert into c values (1)`)])
  await db.$client.batch(['create table odd (id)', 'create table broken (odd integer references odd (id))'])
  const migrating = migrate(db, { migrations: [{ ...createA, sql: init }, deletion], onWarning })
  await expect(migrating).rejects.toThrow('violate a foreign key')
  expect(warnings).toEqual([expect.stringContaining('broken')])
  expect(await db.values(sql`select count(*) from p`)).toEqual([[1]])
})

test('applies migrations statement by statement without a transaction', async () => {
  const migrating = migrate(db, { migrations: [createA, broken], transaction: false })
  await expect(migrating).rejects.toMatchObject({ migration: broken.name, statementIndex: 1 })
  expect(await migrate(db, { migrations: [createA] })).toEqual([])
})

describe('init', () => {
  const readTables = () => db.values(sql`select name from sqlite_schema where name = 'a'`)

  test('marks the only migration as applied without running it, as Drizzle’s own migrator does', async () => {
    expect(await migrate(db, { migrations: [createA], init: true })).toBeUndefined()
    expect(await readTables()).toEqual([])
    expect((await readJournal()).map(([, , name]) => name)).toEqual([createA.name])
    expect(await migrate(db, { migrations: [createA, createB] })).toEqual([createB.name])
  })

  test('rejects a database that has migrations, and more than one local migration', async () => {
    const init = (migrations: MigrationSource[]) => migrate(db, { migrations, init: true })
    expect(await init([createA, createB])).toEqual({ exitCode: 'localMigrations' })
    expect(await readJournal()).toEqual([])
    await migrate(db, { migrations: [createA] })
    expect(await init([createA])).toEqual({ exitCode: 'databaseMigrations' })
    expect(await init([])).toEqual({ exitCode: 'databaseMigrations' })
  })

  test('returns the same as Drizzle’s own migrator', async () => {
    const libsqlDb = libsqlDrizzle({ connection: database as { url: string } })
    const config = { migrationsFolder: folder, init: true } as const
    expect(await migrate(db, config)).toEqual(await drizzleMigrate(libsqlDb, config))
    await migrate(db, { migrationsFolder: folder })
    expect(await migrate(db, config)).toEqual(await drizzleMigrate(libsqlDb, config))
  })
})
