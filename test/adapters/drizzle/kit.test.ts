import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { drizzle } from '@batonsql/drizzle-driver'
import { migrate } from '@batonsql/drizzle-driver/migrator'
import { sql } from 'drizzle-orm'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { killAfterTests } from '../../support/baton-command.ts'
import { stablePort } from '../../support/stable-port.ts'
import { openTestServer, type TestDatabase } from '../../support/test-server.ts'

// The drizzle-kit CLI on each tested server. `push` is tested in real-clients.test.ts.

const server = await openTestServer()
const fixture = fileURLToPath(new URL('../../fixtures/drizzle-kit/', import.meta.url))
const bin = fileURLToPath(import.meta.resolve('drizzle-kit')).replace(/[^/\\]+$/, 'bin.cjs')
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

const argsOf = (args: readonly string[]): string[] => [bin, ...args, '--config', 'drizzle.config.ts']
const env = (): NodeJS.ProcessEnv => ({
  ...process.env,
  KIT_URL: database.url,
  KIT_TOKEN: database.authToken ?? '',
  KIT_OUT: `./${out.slice(fixture.length)}`,
})

async function runKit(...args: string[]): Promise<void> {
  const options = { cwd: fixture, env: env(), timeout: 180_000, maxBuffer: 64 << 20 }
  await promisify(execFile)(process.execPath, argsOf(args), options)
}

/**
 * Starts drizzle-kit's studio without its page, which is hosted elsewhere. @returns a function that sends a request to its local
 * API
 */
async function startStudio(): Promise<(body: object) => Promise<unknown>> {
  const port = await stablePort()
  const args = argsOf(['studio', '--host', '127.0.0.1', '--port', String(port)])
  const child = spawn(process.execPath, args, { cwd: fixture, env: env() })
  killAfterTests(child)
  let output = ''
  for await (const part of child.stdout) {
    output += part
    if (output.includes('up and running')) break
  }
  return async (body) => {
    const response = await fetch(`http://127.0.0.1:${port}/`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return await response.json()
  }
}

/** Returns the text of the file in `out` whose name has this ending. */
const readOutput = (ending: string): string =>
  readFileSync(join(out, readdirSync(out).find((name) => name.endsWith(ending)) ?? ending), 'utf8')

test('generate needs no server, and our migrate() applies what it wrote', async () => {
  await runKit('generate', '--name', 'init')
  expect(readOutput('_init.sql')).toContain('CREATE TABLE `book`')
  const db = drizzle({ connection: database.config })
  expect(await migrate(db, { migrationsFolder: out })).toEqual(['0000_init'])
  await db.batch([
    db.run(sql`insert into author (id, name) values (1, 'Ada')`),
    db.run(sql`insert into book (author_id, title) values (1, 'Notes')`),
  ])
  await db.$client.close()
})

test('pull writes the existing schema to a file', async () => {
  await runKit('generate', '--name', 'init')
  const db = drizzle({ connection: database.config })
  await migrate(db, { migrationsFolder: out })
  await db.batch([
    db.run(sql`create index book_title on book (title)`),
    db.run(sql`create view titles as select title from book`),
  ])
  await db.$client.close()
  out = mkdtempSync(join(fixture, 'out-'))
  folders.push(out)
  await runKit('pull')
  const schema = readOutput('schema.ts')
  for (const part of [
    'sqliteTable("author", {\n\tid: integer().primaryKey({ autoIncrement: true }).notNull()',
    'name: text().notNull()',
    'uniqueIndex("author_name_unique").on(table.name)',
    'rating: real()',
    'portrait: blob()',
    'authorId: integer("author_id").notNull().references(() => author.id, { onDelete: "cascade" } )',
    'index("book_title").on(table.title)',
    'sqliteView("titles"',
  ])
    expect(schema).toContain(part)
  expect(readOutput('relations.ts')).toContain('books: many(book)')
})

test('drizzle-kit migrate and our migrate() can be used alternately on one database', async () => {
  const db = drizzle({ connection: database.config })
  const readJournal = async (): Promise<unknown[]> =>
    await db.values(sql`select hash, created_at from __drizzle_migrations order by created_at`)
  await runKit('generate', '--name', 'first')
  await runKit('migrate')
  expect(await migrate(db, { migrationsFolder: out })).toEqual([])
  await runKit('generate', '--name', 'second', '--custom')
  const second = readdirSync(out).find((name) => name.endsWith('_second.sql')) as string
  writeFileSync(join(out, second), "insert into author (id, name) values (1, 'Ada');")
  expect(await migrate(db, { migrationsFolder: out })).toEqual(['0001_second'])
  const journal = await readJournal()
  await runKit('migrate')
  expect(await readJournal()).toEqual(journal)
  await runKit('generate', '--name', 'third', '--custom')
  const third = readdirSync(out).find((name) => name.endsWith('_third.sql')) as string
  writeFileSync(join(out, third), "insert into author (id, name) values (2, 'Grace');")
  await runKit('migrate')
  expect(await migrate(db, { migrationsFolder: out })).toEqual([])
  expect(await readJournal()).toHaveLength(3)
  expect(await db.values(sql`select name from author order by id`)).toEqual([['Ada'], ['Grace']])
  await db.$client.close()
})

test('studio shows tables and rows, writes a cell, and rolls back a transaction that fails', async () => {
  await runKit('generate', '--name', 'init')
  await runKit('migrate')
  const studio = await startStudio()
  const proxy = (text: string, params: unknown[] = []): Promise<unknown> =>
    studio({ type: 'proxy', data: { sql: text, params, method: 'all', mode: 'array' } })
  expect(await studio({ type: 'init' })).toMatchObject({ dialect: 'sqlite', packageName: '@libsql/client' })
  expect(
    await proxy(
      "select name from sqlite_master where type = 'table' and name in ('author', 'book') order by 1",
    ),
  ).toEqual([['author'], ['book']])
  await proxy('insert into author (id, name) values (?, ?), (?, ?)', [1, 'Ada', 2, 'Grace'])
  await proxy('update author set name = ? where id = ?', ['Ada Lovelace', 1])
  expect(await proxy('select id, name from author order by id')).toEqual([
    [1, 'Ada Lovelace'],
    [2, 'Grace'],
  ])
  const results = await studio({
    type: 'tproxy',
    data: [{ sql: 'delete from author where id = 1' }, { sql: 'delete from nowhere' }],
  })
  expect(results).toEqual([[], { error: expect.stringContaining('nowhere') }])
  expect(await proxy('select count(*) from author')).toEqual([[2]])
})
