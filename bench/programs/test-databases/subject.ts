// One way to give each test a database. As a program, it runs tests and prints their times.
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { TestHooks } from '@batonsql/local-server/testing'

const { BENCH_LIBRARIES = '', BENCH_FOLDER = '' } = process.env
const load = createRequire(join(BENCH_LIBRARIES, 'package.json'))
const TABLES = 30
const MIGRATIONS = 100
const ROWS = 1_000
const SELECT = 'select count(*) from t3'
const INSERT = "insert into t3 (name, email) values ('a', 'b')"

export interface SubjectFigures {
  /** Time from the import of the library to the end of the first test of the process. */
  readonly firstMs: number
  /** Median of the time of a further test, from the creation of its database to its removal. */
  readonly furtherMs: number
}

/** Runs tests that have a database each. */
interface SubjectDatabase {
  /** Runs the statements of a test; the hooks create and remove its database. */
  runTest(): Promise<void> | void
}

const migrations = Array.from({ length: MIGRATIONS }, (_, number) => {
  if (number < TABLES)
    return `create table t${number} (id integer primary key, name text not null, email text unique, created integer default 0);
      create index t${number}_name on t${number} (name)`
  return `alter table t${number % TABLES} add column extra${number} text`
})
const rows = Array.from({ length: ROWS }, (_, row) => {
  return `insert into t${row % TABLES} (name, email) values ('name ${row}', 'mail-${row}@example.org')`
})

/** Writes the migrations and the rows as a folder of drizzle-kit, once. */
function getMigrationsFolder(): string {
  const folder = join(BENCH_FOLDER, 'drizzle')
  if (existsSync(folder)) return folder
  mkdirSync(join(folder, 'meta'), { recursive: true })
  const files = [...migrations, rows.join(';\n')]
  const entries = files.map((_, idx) => ({
    idx,
    version: '6',
    when: idx + 1,
    tag: `${idx}`,
    breakpoints: true,
  }))
  for (const [number, sql] of files.entries()) writeFileSync(join(folder, `${number}.sql`), sql)
  writeFileSync(
    join(folder, 'meta/_journal.json'),
    JSON.stringify({ version: '7', dialect: 'sqlite', entries }),
  )
  return folder
}

async function openBaton(hooks: TestHooks): Promise<SubjectDatabase> {
  const { useDatabase } = await import('@batonsql/local-server/testing')
  const { createClient } = await import('@batonsql/core')
  const templateDirectory = join(BENCH_FOLDER, 'templates')
  const database = useDatabase({ hooks, templateDirectory, migrations: getMigrationsFolder() })
  return {
    async runTest() {
      const db = createClient(database.config)
      await db.execute(SELECT)
      await db.execute(INSERT)
      await db.close()
    },
  }
}

/** The part of better-sqlite3 that is used. */
interface FileDatabase {
  exec(sql: string): void
  pragma(sql: string): void
  prepare(sql: string): { get(): unknown; run(): unknown }
  close(): void
}

async function openFile(hooks: TestHooks): Promise<SubjectDatabase> {
  const Database = load('better-sqlite3') as new (path: string) => FileDatabase
  const template = join(BENCH_FOLDER, 'template.db')
  if (!existsSync(template)) {
    const db = new Database(template)
    db.pragma('journal_mode = WAL')
    db.exec([...migrations, ...rows].join(';\n'))
    db.close()
  }
  const path = join(BENCH_FOLDER, `${process.pid}-${Math.random()}.db`)
  hooks.beforeEach(async () => copyFileSync(template, path))
  hooks.afterEach(async () => rmSync(path))
  return {
    runTest() {
      const db = new Database(path)
      db.prepare(SELECT).get()
      db.prepare(INSERT).run()
      db.close()
    },
  }
}

/** The part of PGlite that is used. */
interface PostgresDatabase {
  exec(sql: string): Promise<unknown>
  dumpDataDir(compression: 'none'): Promise<Blob>
  close(): Promise<void>
}

async function openPglite(hooks: TestHooks): Promise<SubjectDatabase> {
  const { PGlite } = load('@electric-sql/pglite') as {
    PGlite: { create(options?: { loadDataDir: Blob }): Promise<PostgresDatabase> }
  }
  const template = join(BENCH_FOLDER, 'pglite.tar')
  if (!existsSync(template)) {
    const db = await PGlite.create()
    await db.exec(
      [...migrations, ...rows].join(';\n').replaceAll('integer primary key', 'serial primary key'),
    )
    writeFileSync(template, Buffer.from(await (await db.dumpDataDir('none')).arrayBuffer()))
    await db.close()
  }
  const loadDataDir = new Blob([readFileSync(template)])
  let db: PostgresDatabase | null = null
  hooks.beforeEach(async () => {
    db = await PGlite.create({ loadDataDir })
  })
  hooks.afterEach(async () => await db?.close())
  return {
    async runTest() {
      await db?.exec(SELECT)
      await db?.exec(INSERT)
    },
  }
}

const OPENERS: Readonly<Record<string, (hooks: TestHooks) => Promise<SubjectDatabase>>> = {
  baton: openBaton,
  'better-sqlite3': openFile,
  pglite: openPglite,
}

/** Prepares a subject, whose hooks create and remove the databases. */
export async function open(subject: string, hooks: TestHooks): Promise<SubjectDatabase> {
  const opener = OPENERS[subject]
  if (opener === undefined) throw new RangeError(`unknown subject ${subject}`)
  return await opener(hooks)
}

async function measure(subject: string, tests: number): Promise<SubjectFigures> {
  const work: Record<string, (() => Promise<void>)[]> = {}
  const register = (name: string) => (hook: () => Promise<void>) => (work[name] ??= []).push(hook)
  const call = async (name: string): Promise<void> => {
    for (const hook of work[name] ?? []) await hook()
  }
  const names = ['beforeAll', 'beforeEach', 'afterEach', 'afterAll']
  const hooks = Object.fromEntries(names.map((name) => [name, register(name)])) as unknown as TestHooks
  const importedAt = performance.now()
  const database = await open(subject, hooks)
  await call('beforeAll')
  const times: number[] = []
  let firstMs = 0
  for (let test = 0; test < tests; test++) {
    const startedAt = performance.now()
    await call('beforeEach')
    await database.runTest()
    await call('afterEach')
    times.push(performance.now() - startedAt)
    if (test === 0) firstMs = performance.now() - importedAt
  }
  await call('afterAll')
  return { firstMs, furtherMs: times.slice(1).sort((a, b) => a - b)[(tests - 1) >> 1] ?? 0 }
}

const [, program = '', subject, tests = '1'] = process.argv
if (import.meta.filename === program && subject !== undefined)
  console.log(JSON.stringify(await measure(subject, Number(tests))))
