import { createClient } from '@batonsql/core'
import { BatonDialect, BatonIntrospector } from '@batonsql/kysely-dialect'
import { type Expression, Kysely, type SqlBool, SqliteIntrospector, sql, type TableMetadata } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openTestServer, type TestDatabase, type TestServer } from '../../support/test-server.ts'

let server: TestServer
let database: TestDatabase
let db: Kysely<unknown>

beforeAll(async () => {
  server = await openTestServer()
  database = await server.createDatabase()
  db = new Kysely({ dialect: new BatonDialect({ url: database.url, authToken: database.authToken }) })
  for (const statement of [
    'create table person (id integer primary key autoincrement, name text not null, age integer default 7)',
    'create table autoincrement_flag_holder (id text primary key, autoincrement_flag integer)',
    'create table commented (id integer primary key /* newest first */ desc)',
    'create table descending (id integer primary key desc)',
    'create table keyed (id integer primary key, a text) without rowid',
    'create table made (a integer, twice integer generated always as (a * 2), thrice integer as (a * 3) stored)',
    'create table pair (a integer, b integer, primary key (a, b)) without rowid',
    'create view adults as select id, name from person where age > 17',
    'create virtual table words using fts5(word)',
    'create table place (at F32_BLOB(2))',
    'create index place_at on place (libsql_vector_idx(at))',
    'create table kysely_migration (name text)',
    'create table libsql_notes (a)',
    'create table _litestream_notes (a)',
    'create table "odd ""name" ("a b" integer)',
  ])
    await sql.raw(statement).execute(db)
})
afterAll(() => db.destroy())

const findTable = (tables: readonly TableMetadata[], name: string): TableMetadata | undefined =>
  tables.find((table) => table.name === name)

const getKeys = (value: object | undefined): string[] => Object.keys(value ?? {}).toSorted()

test('one request reads everything', async () => {
  const before = database.requestCount()
  const tables = await db.introspection.getTables()
  expect(database.requestCount() - before).toBe(1)
  const names =
    '_litestream_notes, adults, autoincrement_flag_holder, commented, descending, keyed, libsql_notes, made, odd "name, pair, person, place, words'
  expect(tables.map((table) => table.name)).toEqual(names.split(', '))
  expect(tables.filter((table) => table.isView).map((table) => table.name)).toEqual(['adults'])
})

test('our introspector and Kysely’s own return the same metadata for ordinary tables', async () => {
  const expected = await new SqliteIntrospector(db).getTables()
  const ours = await db.introspection.getTables()
  for (const name of ['person', 'adults', 'pair', 'odd "name']) {
    const [ourTable, kyselyTable] = [findTable(ours, name), findTable(expected, name)]
    // Kysely 0.28 does not know foreign tables
    expect(ourTable).toEqual({ isForeign: false, ...kyselyTable })
    // including those without a value
    expect(ourTable?.columns.map(getKeys)).toEqual(kyselyTable?.columns.map(getKeys))
  }
})

test('generated columns are listed, and count as having a default', async () => {
  const columns = findTable(await db.introspection.getTables(), 'made')?.columns
  expect(columns?.map(({ name, hasDefaultValue }) => [name, hasDefaultValue])).toEqual([
    ['a', false],
    ['twice', true],
    ['thrice', true],
  ])
})

test('isAutoIncrementing is true for columns that SQLite numbers itself', async () => {
  const tables = await db.introspection.getTables()
  const columns = tables.flatMap(({ name, columns }) => columns.map((column) => ({ ...column, table: name })))
  const numbered = columns.filter(({ isAutoIncrementing }) => isAutoIncrementing)
  expect(numbered.map(({ table, name }) => `${table}.${name}`)).toEqual(['person.id'])
})

test('Kysely’s own tables are listed on request', async () => {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true })
  expect(findTable(tables, 'kysely_migration')).toBeDefined()
})

test('lists only the tables that match `where`, as in Kysely 0.30', async () => {
  const where = ({ table }: { table: Expression<string> }): Expression<SqlBool> =>
    sql<SqlBool>`${table} = 'pair' or ${table} = 'made'`
  const listNames = async (introspector: SqliteIntrospector): Promise<string[]> =>
    (await introspector.getTables({ withInternalKyselyTables: false, where } as never)).map(
      ({ name }) => name,
    )
  expect(await listNames(new BatonIntrospector(db))).toEqual(['made', 'pair'])
  const expected = await listNames(new SqliteIntrospector(db))
  // earlier versions do not have the option, and ignore it
  if (inject('kysely') === '0.30') expect(expected).toEqual(['made', 'pair'])
  else expect(expected).toContain('person')
})

test('there are no schemas; getMetadata() works in 0.28, the last version that has it', async () => {
  expect(await db.introspection.getSchemas()).toEqual([])
  const introspection = db.introspection as { getMetadata?: () => Promise<{ tables: unknown[] }> }
  const metadata = await introspection.getMetadata?.()
  const expected = inject('kysely') === '0.28' ? await db.introspection.getTables() : undefined
  expect(metadata?.tables).toEqual(expected)
})

test('a view that cannot be read has no columns, and does not affect the others', async () => {
  await using client = createClient((await server.createDatabase()).config)
  const other = new Kysely<unknown>({ dialect: new BatonDialect({ client }) })
  for (const statement of [
    'create table b_gone (id integer)',
    'create table z_renamed (id integer, old integer)',
    'create view a_missing as select * from b_gone',
    'create view c_chained as select * from a_missing',
    'create view d_column as select old from z_renamed',
    'create view e_readable as select id from z_renamed',
    'create table y_plain (id integer primary key, name text not null)',
    'drop table b_gone',
  ])
    await client.execute(statement)
  const tables = await other.introspection.getTables()
  const summary = tables.map(({ name, isView, columns }) => [
    name,
    isView,
    columns.map((column) => column.name),
  ])
  expect(summary).toEqual([
    ['a_missing', true, []],
    ['c_chained', true, []],
    ['d_column', true, ['old']],
    ['e_readable', true, ['id']],
    ['y_plain', false, ['id', 'name']],
    ['z_renamed', false, ['id', 'old']],
  ])
  // the Migrator reads the tables first, so a migration can repair the view
  const repair: Migration = { up: (db) => db.schema.dropView('a_missing').execute() }
  const migrator = new Migrator({ db: other, provider: { getMigrations: async () => ({ repair }) } })
  expect(await migrator.migrateToLatest()).not.toHaveProperty('error')
  await client.close()
  await expect(other.introspection.getTables()).rejects.toMatchObject({ code: 'CLOSED' })
  await other.destroy()
})
