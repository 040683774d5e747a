import { copyFile, open, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { startLocalServer } from '@batonsql/local-server'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { hasSqld } from '../support/has-sqld.ts'
import { stablePort } from '../support/stable-port.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { startWith } from './start-with.ts'
import { close, codes, execute, pipeline, query } from './wire.ts'

const PETS = 'SELECT name FROM pet ORDER BY rowid'
const BACKENDS: readonly ('embedded' | 'sqld')[] = hasSqld ? ['embedded', 'sqld'] : ['embedded']

/** Uses another build of SQLite to create a file whose last rows are still in its WAL. */
function createFile(path: string): DatabaseSync {
  const file = new DatabaseSync(path)
  file.exec("PRAGMA journal_mode = WAL; CREATE TABLE pet (name); INSERT INTO pet VALUES ('Rex')")
  return file
}

test.each(
  BACKENDS.flatMap((backend) => [
    { backend, mode: 'delete' },
    { backend, mode: 'wal' },
  ]),
)(
  'a database is created as a copy of a file in journal mode $mode, and kept: $backend',
  async ({ backend, mode }) => {
    const directory = createTemporaryDirectory()
    const path = join(directory, 'pets.db')
    const file = createFile(path)
    file.exec(`PRAGMA journal_mode = ${mode}`)
    // closed now or in the end: the rows may still be in the WAL
    if (mode === 'delete') file.close()
    const options = { backend, dataDirectory: join(directory, 'data') }
    {
      await using server = await startLocalServer(options)
      const { url } = await server.createDatabase('pets', { fromFile: path })
      await query(url, "INSERT INTO pet VALUES ('Tom')")
      expect(await query(url, PETS)).toEqual([['Rex'], ['Tom']])
      expect(await query(url, 'PRAGMA integrity_check')).toEqual([['ok']])
    }
    if (mode === 'wal') file.close()
    using original = new DatabaseSync(path)
    expect(original.prepare('SELECT count(*) AS count FROM pet').get()).toEqual({ count: 1 })
    await using restarted = await startLocalServer(options)
    expect(await query(restarted.urlOf('pets'), PETS)).toEqual([['Rex'], ['Tom']])
  },
)

test.each(BACKENDS)('an unfinished transaction of another program is rolled back: %s', async (backend) => {
  const unfinishedPath = await createUnfinishedFile(createTemporaryDirectory())
  await using server = await startLocalServer({ backend })
  const { url } = await server.createDatabase('d', { fromFile: unfinishedPath })
  expect(await query(url, 'SELECT DISTINCT a FROM t')).toEqual([['before']])
  expect(await query(url, 'PRAGMA integrity_check')).toEqual([['ok']])
})

test.each(BACKENDS)(
  'a database is created from a symbolic link with the rows in the WAL of the file (%s)',
  async (backend) => {
    const folder = createTemporaryDirectory()
    using _ = createFile(join(folder, 'pets.db'))
    await symlink(join(folder, 'pets.db'), join(folder, 'link.db'))
    await using server = await startLocalServer({ backend })
    const { url } = await server.createDatabase('pets', { fromFile: join(folder, 'link.db') })
    expect(await query(url, PETS)).toEqual([['Rex']])
  },
)

test.each(['fromDatabase', 'fromFile'] as const)(
  'other programs can use the file of a copy that was never opened (%s)',
  async (option) => {
    const dataDirectory = createTemporaryDirectory()
    const databases = join(dataDirectory, 'databases')
    const path = join(createTemporaryDirectory(), 'pets.db')
    const original = createFile(path)
    onTestFinished(() => original.close())
    const names = { fromDatabase: 'default', fromFile: path }
    await using server = await startLocalServer({ dataDirectory })
    await query(server.url, 'CREATE TABLE pet (name)')
    await query(server.url, "INSERT INTO pet VALUES ('Rex')")
    const before = await readdir(databases)
    await server.createDatabase('copy', { [option]: names[option] })
    const folder = (await readdir(databases)).find((name) => !before.includes(name)) as string
    using file = new DatabaseSync(join(databases, folder, 'data.db'))
    file.exec("INSERT INTO pet VALUES ('Tom')")
    file.close()
    expect(await query(server.urlOf('copy'), PETS)).toEqual([['Rex'], ['Tom']])
  },
)

test.each(BACKENDS)(
  'a database is created as a copy of another one, with its latest state, on %s',
  async (backend) => {
    await using server = await startLocalServer({ backend })
    await query(server.url, 'CREATE TABLE pet (name)')
    await query(server.url, "INSERT INTO pet VALUES ('Rex')")
    const { url } = await server.createDatabase('fork', { fromDatabase: 'default', blockWrites: false })
    await query(server.url, "INSERT INTO pet VALUES ('Tom')")
    await query(url, "INSERT INTO pet VALUES ('Kit')")
    expect(await query(url, PETS)).toEqual([['Rex'], ['Kit']])
    expect(await query(server.url, PETS)).toEqual([['Rex'], ['Tom']])
    await expect(server.createDatabase('x', { fromDatabase: 'missing' })).rejects.toThrow('does not exist')
    await expect(server.createDatabase('x', { fromDatabase: 'default', fromFile: 'a.db' })).rejects.toThrow(
      'use only one of fromFile, fromDatabase',
    )
    await server.createDatabase('schema', { isSchema: true })
    await expect(server.createDatabase('x', { fromDatabase: 'schema' })).rejects.toThrow('cannot be copied')
    expect(server.databaseNames).toEqual(['default', 'fork', 'schema'])
  },
)

test('no request is answered before the databases given at the start are created, and later starts keep them', async () => {
  const directory = createTemporaryDirectory()
  const path = join(directory, 'pets.db')
  createFile(path).close()
  const port = await stablePort()
  let copies = 0
  const options = {
    port,
    dataDirectory: join(directory, 'data'),
    databases: {
      pets: async () => {
        copies += 1
        await expect(fetch(`http://127.0.0.1:${port}/health`)).rejects.toThrow('fetch failed')
        return { fromFile: path }
      },
      other: {},
    },
  }
  const first = await startLocalServer(options)
  expect(first.databaseNames).toEqual(['default', 'pets', 'other'])
  await query(first.urlOf('pets'), "INSERT INTO pet VALUES ('Tom')")
  await first.close()
  await using second = await startLocalServer(options)
  expect(await query(second.urlOf('pets'), PETS)).toEqual([['Rex'], ['Tom']])
  expect(copies).toBe(1)
  await second.close()
  const failing = { ...options, databases: { bad: { fromFile: join(directory, 'nowhere.db') } } }
  await expect(startLocalServer(failing)).rejects.toThrow('nowhere.db')
  await using third = await startLocalServer(options)
  expect(third.databaseNames).toEqual(['default', 'pets', 'other'])
})

test.each([
  'PRAGMA page_size = 512',
  'PRAGMA page_size = 65536',
  'PRAGMA auto_vacuum = FULL',
  'PRAGMA auto_vacuum = INCREMENTAL',
  "PRAGMA encoding = 'UTF-16le'",
])('a file created with %s is served, and exported again', async (pragma) => {
  const directory = createTemporaryDirectory()
  const path = join(directory, 'pets.db')
  const file = new DatabaseSync(path)
  file.exec(`${pragma}; CREATE TABLE pet (name TEXT); CREATE INDEX by_name ON pet (name);
    WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 500)
    INSERT INTO pet SELECT 'Räx ' || i FROM c`)
  file.close()
  await using server = await startLocalServer()
  const { url } = await server.createDatabase('pets', { fromFile: path })
  await query(url, "INSERT INTO pet VALUES ('Töm €')")
  await query(url, "DELETE FROM pet WHERE name LIKE 'Räx 4%'")
  expect(await query(url, "SELECT count(*) FROM pet WHERE name > 'Räx'")).toEqual([['390']])
  expect(await query(url, 'PRAGMA integrity_check')).toEqual([['ok']])
  const copy = join(directory, 'copy.db')
  await server.exportDatabase('pets', copy)
  const exportedFile = new DatabaseSync(copy)
  expect(exportedFile.prepare("SELECT name FROM pet WHERE name LIKE 'T%'").all()).toEqual([{ name: 'Töm €' }])
  expect(exportedFile.prepare('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' })
  exportedFile.close()
})

test('a size limit takes the page size of the file into account', async () => {
  const path = join(createTemporaryDirectory(), 'small-pages.db')
  const file = new DatabaseSync(path)
  file.exec('PRAGMA page_size = 512; CREATE TABLE t (a)')
  file.close()
  await using server = await startLocalServer()
  const { url } = await server.createDatabase('d', { fromFile: path, sizeLimit: '200000' })
  const insert = (size: number) => pipeline(url, [execute(`INSERT INTO t VALUES (zeroblob(${size}))`)])
  expect(codes(await insert(150_000))).toEqual(['ok'])
  expect(codes(await insert(100_000))).toEqual(['SQLITE_FULL'])
})

/** Creates a file with a journal, as left by a program that was killed in a transaction. */
async function createUnfinishedFile(directory: string): Promise<string> {
  const [path, unfinishedPath] = [join(directory, 'own.db'), join(directory, 'left.db')]
  const file = new DatabaseSync(path)
  file.exec("CREATE TABLE t (a, b); INSERT INTO t VALUES ('before', 1); PRAGMA cache_size = 2; BEGIN")
  const insert = file.prepare("INSERT INTO t VALUES ('unfinished', ?)")
  for (let count = 0; count < 2_000; count += 1) insert.run('x'.repeat(500))
  await copyFile(path, unfinishedPath)
  await copyFile(`${path}-journal`, `${unfinishedPath}-journal`)
  file.close()
  return unfinishedPath
}

test('a file that is not a database, is missing or is in use is rejected, and no database is created', async () => {
  const directory = createTemporaryDirectory()
  const text = join(directory, 'notes.txt')
  await writeFile(text, 'these are notes and no database')
  await using server = await startLocalServer({ dataDirectory: join(directory, 'data') })
  const create = (fromFile: string): Promise<unknown> => server.createDatabase('x', { fromFile })
  await expect(create(text)).rejects.toThrow(`${text} is not an SQLite database`)
  await expect(create(join(directory, 'missing.db'))).rejects.toThrow('missing.db cannot be read: ENOENT')
  await query(server.url, 'CREATE TABLE t (a)')
  const folder = join(directory, 'data', 'databases')
  const [id = ''] = await readdir(folder)
  const openFile = join(folder, id, 'data.db')
  await expect(create(openFile)).rejects.toThrow('in use by a local server')
  expect(server.databaseNames).toEqual(['default'])
  expect(await server.createDatabase('x')).toMatchObject({ url: expect.stringMatching(/\/x\/$/) })
})

test('a database is exported to a file that any SQLite can open, and remains usable', async () => {
  const target = join(createTemporaryDirectory(), 'out.db')
  await using server = await startWith('CREATE TABLE t (a)', "INSERT INTO t VALUES ('kept')")
  const transaction = await pipeline(server.url, [execute('BEGIN'), execute("INSERT INTO t VALUES ('open')")])
  await server.exportDatabase('default', target)
  const file = new DatabaseSync(target, { readOnly: true })
  expect(file.prepare('SELECT a FROM t').all()).toEqual([{ a: 'kept' }])
  file.close()
  const commit = await pipeline(server.url, [execute('COMMIT'), close], { baton: transaction.baton })
  expect(commit.status).toBe(200)
  await query(server.url, "INSERT INTO t VALUES ('later')")
  expect(await query(server.url, 'SELECT a FROM t')).toEqual([['kept'], ['open'], ['later']])
  await expect(server.exportDatabase('default', target)).rejects.toThrow('already exists')
  await expect(server.exportDatabase('nosuch', target)).rejects.toThrow('database "nosuch" does not exist')
})

const COPY_NAMES = ['a', 'b', 'c']

test.each([true, false])(
  'an export and a snapshot are on disk if the server is durable (%s)',
  async (isDurable) => {
    const folder = createTemporaryDirectory()
    const handle = await open(folder)
    await handle.close()
    const sync = vi.spyOn(Object.getPrototypeOf(handle) as typeof handle, 'sync')
    await using server = await startLocalServer(isDurable ? { dataDirectory: join(folder, 'data') } : {})
    await query(server.url, 'CREATE TABLE pet (name)')
    for (const save of [
      () => server.exportDatabase('default', join(folder, 'out.db')),
      () => server.createSnapshot('default'),
    ]) {
      sync.mockClear()
      await save()
      expect(sync).toHaveBeenCalledTimes(isDurable ? 1 : 0)
    }
  },
)

test('repeated exports delay concurrent requests, but do not make them fail', async () => {
  const directory = createTemporaryDirectory()
  await using server = await startWith('CREATE TABLE t (a)')
  const stopController = new AbortController()
  const write = async (): Promise<number> => {
    let count = 0
    for (; !stopController.signal.aborted; count += 1) {
      const reply = await pipeline(server.url, [execute('INSERT INTO t VALUES (1)'), close])
      expect(codes(reply)).toEqual(['ok', 'ok'])
    }
    return count
  }
  const writers = Promise.all([write(), write(), write()])
  for (let round = 0; round < 10; round += 1) {
    await Promise.all(
      COPY_NAMES.map((name) => server.exportDatabase('default', join(directory, name + round))),
    )
    for (const name of COPY_NAMES) {
      const copy = new DatabaseSync(join(directory, name + round))
      expect(copy.prepare('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' })
      copy.close()
    }
  }
  stopController.abort()
  const counts = await writers
  expect(await query(server.url, 'SELECT count(*) FROM t')).toEqual([
    [String(counts.reduce((sum, count) => sum + count))],
  ])
})

test('a database that was never written to is exported as an empty file', async () => {
  const target = join(createTemporaryDirectory(), 'out.db')
  await using server = await startLocalServer()
  await server.exportDatabase('default', target)
  const file = new DatabaseSync(target)
  expect(file.prepare('SELECT count(*) AS count FROM sqlite_schema').get()).toEqual({ count: 0 })
  file.close()
})

describe.skipIf(!hasSqld)('libsql-server', () => {
  test('is not given a file that it cannot open, and other databases are not affected', async () => {
    const directory = createTemporaryDirectory()
    const path = (name: string) => join(directory, name)
    createFile(path('good.db')).close()
    const goodBytes = await readFile(path('good.db'))
    await writeFile(
      path('damaged.db'),
      Buffer.concat([goodBytes.subarray(0, 100), Buffer.alloc(goodBytes.length, 7)]),
    )
    await writeFile(path('notes.txt'), 'these are notes and no database')
    const smallPagesFile = new DatabaseSync(path('small.db'))
    smallPagesFile.exec('PRAGMA page_size = 512; CREATE TABLE t (a)')
    smallPagesFile.close()
    await using server = await startLocalServer({ backend: 'sqld' })
    await query(server.url, 'CREATE TABLE t (a)')
    for (const [name, reason] of [
      ['damaged.db', /malformed|does not open/],
      ['notes.txt', 'is not an SQLite database'],
      ['missing.db', 'cannot be read: ENOENT'],
      ['small.db', 'has pages of 512 bytes'],
    ] as const)
      await expect(server.createDatabase('x', { fromFile: path(name) })).rejects.toThrow(reason)
    expect(server.databaseNames).toEqual(['default'])
    expect(await query(server.url, 'SELECT count(*) FROM t')).toEqual([['0']])
    const { url } = await server.createDatabase('x', { fromFile: path('good.db') })
    expect(await query(url, PETS)).toEqual([['Rex']])
  })
})
