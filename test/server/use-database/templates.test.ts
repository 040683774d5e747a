import { existsSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient } from '@batonsql/core'
import { pendingMigrations } from '@batonsql/drizzle-driver/migrator'
import { type TestDatabase, type UseDatabaseOptions, useDatabase } from '@batonsql/local-server/testing'
import { type Kysely, sql } from 'kysely'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { ManualRunner } from './manual-runner.ts'

// Templates on disk: what makes a new one, what is kept, and what is never used.

let folder = ''
let templateDirectory = ''
beforeEach(() => {
  folder = createTemporaryDirectory()
  templateDirectory = join(folder, 'templates')
})

/** Runs one test as a process of its own would: with a new server, and without what earlier ones have in memory. */
async function runTest<T>(
  options: UseDatabaseOptions,
  work: (database: TestDatabase) => Promise<T>,
): Promise<T> {
  const runner = new ManualRunner()
  const database = useDatabase({ templateDirectory, ...options, hooks: runner.hooks })
  await runner.begin()
  try {
    await runner.beginTest()
    return await work(database)
  } finally {
    await runner.end()
  }
}

async function query({ config }: Pick<TestDatabase, 'config'>, text: string): Promise<unknown[]> {
  const db = createClient(config)
  try {
    return (await db.execute(text)).rows
  } finally {
    await db.close()
  }
}

const listTables = (options: UseDatabaseOptions): Promise<unknown> =>
  runTest(options, async (database) => {
    const rows = await query(database, "select name from sqlite_schema where type = 'table' order by name")
    return rows.map((row) => (row as { name: string }).name).filter((name) => !/^(__|kysely_)/.test(name))
  })

const listTemplates = (): string[] =>
  existsSync(templateDirectory)
    ? readdirSync(templateDirectory).filter((name) => !name.endsWith('.lock'))
    : []

describe('a folder of drizzle-kit', () => {
  async function createFolder(statement: string): Promise<string> {
    const migrations = join(folder, 'drizzle')
    await mkdir(join(migrations, 'meta'), { recursive: true })
    const entries = [{ idx: 0, version: '6', when: 1_700_000_000_000, tag: '0000_init', breakpoints: true }]
    const journal = { version: '7', dialect: 'sqlite', entries }
    await writeFile(join(migrations, 'meta/_journal.json'), JSON.stringify(journal))
    await writeFile(join(migrations, '0000_init.sql'), statement)
    return migrations
  }

  test('is applied once, until a file changes; nothing is pending for the program', async () => {
    const migrations = await createFolder('create table note (text)')
    await runTest({ migrations }, async ({ config }) => {
      const db = createClient(config)
      onTestFinished(() => db.close())
      expect(await pendingMigrations({ $client: db }, { migrationsFolder: migrations })).toEqual([])
    })
    const templates = listTemplates()
    expect(templates).toHaveLength(1)
    expect(await listTables({ migrations })).toEqual(['note'])
    expect(listTemplates()).toEqual(templates)
    await createFolder('create table letter (text)')
    expect(await listTables({ migrations })).toEqual(['letter'])
    expect(listTemplates()).toHaveLength(2)
  })

  test('may be one of Drizzle 1', async () => {
    const migrations = fileURLToPath(new URL('../../fixtures/drizzle-1-migrations', import.meta.url))
    expect(await listTables({ migrations })).not.toEqual([])
    expect(listTemplates()).toHaveLength(1)
  })

  test('with a migration that fails, leaves nothing, and is applied again by the next process', async () => {
    const migrations = await createFolder('create table note (text); insert into nowhere values (1)')
    const message = /the template ".*drizzle" failed: .*no such table: nowhere/
    await expect(listTables({ migrations })).rejects.toThrow(message)
    expect(listTemplates()).toEqual([])
    await createFolder('create table note (text)')
    expect(await listTables({ migrations })).toEqual(['note'])
  })

  test('that is missing makes each test fail with its path', async () => {
    const migrations = join(folder, 'none')
    await expect(listTables({ migrations })).rejects.toThrow(
      `the folder of the migrations does not exist: ${migrations}`,
    )
  })

  test('that is the wrong one makes each test fail with its path', async () => {
    const migrations = join(folder, 'src')
    await mkdir(migrations)
    await writeFile(join(migrations, 'queries.sql'), 'select 1')
    await expect(listTables({ migrations })).rejects.toThrow(
      `the folder of the migrations contains none of drizzle-kit: ${migrations}`,
    )
  })

  test('is the base of a template, which is called for each process', async () => {
    const migrations = await createFolder('create table note (text)')
    const otherMigrations = fileURLToPath(new URL('../../fixtures/drizzle-1-migrations', import.meta.url))
    const template = vi.fn(
      async (config: TestDatabase['config']) => void (await query({ config }, 'create table b (c)')),
    )
    for (let round = 0; round < 2; round++)
      expect(await listTables({ migrations, template })).toEqual(['b', 'note'])
    expect(template).toHaveBeenCalledTimes(2)
    expect(listTemplates()).toHaveLength(1)
    const runner = new ManualRunner()
    const options = { templateDirectory, template, hooks: runner.hooks }
    const database = useDatabase({ ...options, migrations })
    await runner.begin()
    await runner.beginTest()
    expect(await listTables({ migrations: otherMigrations, template })).not.toContain('note')
    expect(await query(database, 'select * from note')).toEqual([])
  })
})

describe('a migration provider of Kysely', () => {
  const createTable = (table: string) => ({
    up: async (db: Kysely<unknown>) => void (await sql`create table ${sql.table(table)} (a)`.execute(db)),
  })

  test('is applied once, until a name or a function changes', async () => {
    const up = vi.fn(async (db: Kysely<unknown>) => void (await sql`create table note (a)`.execute(db)))
    const first = { '001': { up: async (db: Kysely<unknown>) => await up(db) } }
    for (let round = 0; round < 2; round++)
      expect(await listTables({ migrations: { getMigrations: async () => first } })).toEqual(['note'])
    expect(up).toHaveBeenCalledTimes(1)
    const renamed = { '002': first['001'] }
    const changed = {
      '001': { up: async (db: Kysely<unknown>) => void (await sql`create table b (a)`.execute(db)) },
    }
    await listTables({ migrations: { getMigrations: async () => renamed } })
    expect(await listTables({ migrations: { getMigrations: async () => changed } })).toEqual(['b'])
    expect(listTemplates()).toHaveLength(3)
  })

  test('is applied by each process if its functions differ only in their variables', async () => {
    const provide = (...tables: string[]) => ({
      getMigrations: async () => Object.fromEntries(tables.map((table) => [table, createTable(table)])),
    })
    expect(await listTables({ migrations: provide('a', 'b') })).toEqual(['a', 'b'])
    const template = { key: '1', create: async () => {} }
    expect(await listTables({ migrations: provide('a', 'b'), template })).toEqual(['a', 'b'])
    expect(await listTables({ migrations: provide('c', 'd'), template })).toEqual(['c', 'd'])
    const bound = { up: createTable('c').up.bind(null) }
    expect(await listTables({ migrations: { getMigrations: async () => ({ bound }) } })).toEqual(['c'])
    expect(listTemplates()).toEqual([])
  })

  test('that changes while it is applied is not kept', async () => {
    const first = { up: async (db: Kysely<unknown>) => void (await sql`create table a (a)`.execute(db)) }
    const second = { up: async (db: Kysely<unknown>) => void (await sql`create table b (a)`.execute(db)) }
    const changes = [first, second]
    const getMigrations = async () => ({ '001': changes.shift() ?? second })
    await expect(listTables({ migrations: { getMigrations } })).rejects.toThrow(
      'the migrations changed while they were applied; run the tests again',
    )
    expect(listTemplates()).toEqual([])
  })

  test('whose migration fails is reported with the reason', async () => {
    const up = async (db: Kysely<unknown>) => void (await sql`insert into nowhere values (1)`.execute(db))
    await expect(
      listTables({ migrations: { getMigrations: async () => ({ '001': { up } }) } }),
    ).rejects.toThrow(/the template "migrations" failed: .*nowhere/)
  })
})

describe('a template with a key', () => {
  const create = vi.fn(async ({ url }: TestDatabase['config']) => {
    await query({ config: { url } }, 'create table note (text)')
  })
  beforeEach(() => void create.mockClear())

  test('is made once for each key', async () => {
    for (const key of ['1', '1', '2'])
      expect(await listTables({ template: { key, create } })).toEqual(['note'])
    expect(create).toHaveBeenCalledTimes(2)
    expect(listTemplates()).toHaveLength(2)
  })

  test('is not used before it is complete', async () => {
    await listTables({ template: { key: '1', create } })
    const [name = ''] = listTemplates()
    rmSync(join(templateDirectory, name))
    // left by a process that was killed
    writeFileSync(join(templateDirectory, `${name}.unfinished`), 'SQLite')
    expect(await listTables({ template: { key: '1', create } })).toEqual(['note'])
    expect(listTemplates()).toEqual([name])
  })

  test('is removed when it has not been used for two weeks; other files are not', async () => {
    for (const key of ['old', 'new']) await listTables({ template: { key, create } })
    const templates = listTemplates()
    writeFileSync(join(templateDirectory, 'notes.db'), '')
    const before = (days: number): Date => new Date(Date.now() - days * 86_400_000)
    for (const name of [...templates, 'notes.db'])
      utimesSync(join(templateDirectory, name), before(15), before(15))
    await listTables({ template: { key: 'new', create } })
    expect(create).toHaveBeenCalledTimes(2)
    await listTables({ template: { key: 'newer', create } })
    expect(listTemplates()).toHaveLength(3)
    expect(listTemplates()).toContain('notes.db')
    await listTables({ template: { key: 'old', create } })
    expect(create).toHaveBeenCalledTimes(4)
  })

  test('is made by one process, however old the file of its lock is', async () => {
    await listTables({ template: { key: '1', create } })
    const [name = ''] = listTemplates()
    rmSync(join(templateDirectory, name))
    const lock = join(templateDirectory, `${name}.lock`)
    // some file systems do not update the times of a lock file that is in use
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 15 * 86_400_000 })
    create.mockImplementationOnce(async () => expect(existsSync(lock)).toBe(true))
    await listTables({ template: { key: '1', create } })
    expect(create).toHaveBeenCalledTimes(2)
  })

  const MESSAGE =
    /templates cannot be kept in .* choose another directory with the option templateDirectory, or BATON_TEMPLATES/

  test('needs a directory that can be created', async () => {
    writeFileSync(templateDirectory, '')
    await expect(listTables({ template: { key: '1', create } })).rejects.toThrow(MESSAGE)
  })

  test.runIf(process.platform === 'linux')('needs a directory that can be written to', async () => {
    const options = { templateDirectory: '/proc/sys/kernel', template: { key: '1', create } }
    await expect(listTables(options)).rejects.toThrow(MESSAGE)
  })

  test('is kept in BATON_TEMPLATES, or in node_modules', async () => {
    const chosen = join(folder, 'chosen')
    vi.stubEnv('BATON_TEMPLATES', chosen)
    const { hooks, begin, beginTest } = new ManualRunner()
    useDatabase({ template: { key: '1', create }, hooks })
    await begin()
    await beginTest()
    expect(readdirSync(chosen)).not.toEqual([])
  })
})
