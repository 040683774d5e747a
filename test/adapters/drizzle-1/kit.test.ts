import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { drizzle } from '@batonsql/drizzle-driver/v1'
import { migrate } from '@batonsql/drizzle-driver/v1/migrator'
import { sql } from 'drizzle-orm'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { openTestServer, type TestDatabase } from '../../support/test-server.ts'

// The drizzle-kit 1.0 CLI on each tested server.

const server = await openTestServer()
const fixture = fileURLToPath(new URL('../../fixtures/drizzle-kit/', import.meta.url))
const bin = fileURLToPath(import.meta.resolve('drizzle-kit-1')).replace(/[^/\\]+$/, 'bin.cjs')
const folders: string[] = []
let database: TestDatabase
let out: string

beforeEach(async () => {
  database = await server.createDatabase()
  out = mkdtempSync(join(fixture, 'out-'))
  folders.push(out)
})
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

async function runKit(...args: string[]): Promise<void> {
  await promisify(execFile)(
    process.execPath,
    ['--import', './use-drizzle-1.mjs', bin, ...args, '--config', 'drizzle-1.config.ts'],
    {
      cwd: fixture,
      env: {
        ...process.env,
        KIT_URL: database.url,
        KIT_TOKEN: database.authToken ?? '',
        KIT_OUT: `./${out.slice(fixture.length)}`,
      },
      timeout: 180_000,
      maxBuffer: 64 << 20,
    },
  )
}

/** Names of the migrations in `out`, in order. */
const listMigrations = (): string[] =>
  readdirSync(out)
    .filter((name) => /^\d{14}_/.test(name))
    .sort()

test('generate needs no server, and our migrate() applies what it wrote', async () => {
  await runKit('generate', '--name', 'init')
  expect(listMigrations()).toEqual([expect.stringMatching(/^\d{14}_init$/)])
  const db = drizzle({ connection: database.config })
  expect(await migrate(db, { migrationsFolder: out })).toEqual(listMigrations())
  await db.batch([
    db.run(sql`insert into author (id, name) values (1, 'Ada')`),
    db.run(sql`insert into book (author_id, title) values (1, 'Notes')`),
  ])
  await db.$client.close()
})

test('push creates the tables, and changes nothing the second time', async () => {
  await runKit('push')
  const db = drizzle({ connection: database.config })
  const readTables = async (): Promise<unknown[][]> =>
    await db.values(sql`select name, sql from sqlite_schema where name in ('author', 'book') order by name`)
  const created = await readTables()
  expect(created.map(([name]) => name)).toEqual(['author', 'book'])
  await runKit('push')
  expect(await readTables()).toEqual(created)
  await db.$client.close()
})

test('pull writes the existing schema to a file', async () => {
  const db = drizzle({ connection: database.config })
  await db.batch([
    db.run(
      sql`create table author (id integer primary key autoincrement, name text not null unique, portrait blob)`,
    ),
    db.run(
      sql`create table book (author_id integer not null references author (id) on delete cascade, title text)`,
    ),
    db.run(sql`create index book_title on book (title)`),
    db.run(sql`create view titles as select title from book`),
  ])
  await db.$client.close()
  await runKit('pull')
  const schema = readFileSync(join(out, 'schema.ts'), 'utf8')
  for (const part of [
    'sqliteTable("author", {',
    'name: text().notNull()',
    'portrait: blob()',
    'references(() => author.id, { onDelete: "cascade" }',
    'index("book_title").on(table.title)',
    'sqliteView("titles"',
  ])
    expect(schema).toContain(part)
  expect(readFileSync(join(out, 'relations.ts'), 'utf8')).toContain('defineRelations')
})

test('drizzle-kit migrate and our migrate() can be used alternately on one database', async () => {
  const db = drizzle({ connection: database.config })
  const readJournal = async (): Promise<unknown[]> =>
    await db.values(sql`select hash, created_at, name from __drizzle_migrations order by name`)
  const addMigration = async (name: string, text: string): Promise<string> => {
    await runKit('generate', '--name', name, '--custom')
    const folder = listMigrations().at(-1) as string
    writeFileSync(join(out, folder, 'migration.sql'), text)
    return folder
  }
  await runKit('generate', '--name', 'first')
  await runKit('migrate')
  expect(await migrate(db, { migrationsFolder: out })).toEqual([])
  const second = await addMigration('second', "insert into author (id, name) values (1, 'Ada');")
  expect(await migrate(db, { migrationsFolder: out })).toEqual([second])
  const journal = await readJournal()
  await runKit('migrate')
  expect(await readJournal()).toEqual(journal)
  await addMigration('third', "insert into author (id, name) values (2, 'Grace');")
  await runKit('migrate')
  expect(await migrate(db, { migrationsFolder: out })).toEqual([])
  expect(await readJournal()).toHaveLength(3)
  expect(await db.values(sql`select name from author order by id`)).toEqual([['Ada'], ['Grace']])
  await db.$client.close()
})
