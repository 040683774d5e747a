import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { startLocalServer } from '@batonsql/local-server'
import { findSqld } from '@batonsql/local-server/sqld'
import { expect, onTestFinished, test } from 'vitest'
import { execute, pipeline, query } from './wire.ts'

const hasSqld = await findSqld().then(
  () => true,
  () => false,
)

async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** A file of another SQLite, whose last rows are still in its log. */
function makeFile(path: string): DatabaseSync {
  const file = new DatabaseSync(path)
  file.exec("PRAGMA journal_mode = WAL; CREATE TABLE pet (name); INSERT INTO pet VALUES ('Rex')")
  return file
}

test.each(['delete', 'wal'])('a database begins as a copy of a file in journal mode %s', async (mode) => {
  const path = join(await temporaryDirectory(), 'pets.db')
  const file = makeFile(path)
  file.exec(`PRAGMA journal_mode = ${mode}`)
  if (mode === 'delete') file.close()
  await using server = await startLocalServer()
  const { url } = await server.createDatabase('pets', { fromFile: path })
  expect(await query(url, 'SELECT name FROM pet')).toEqual([['Rex']])
  await query(url, "INSERT INTO pet VALUES ('Tom')")
  if (mode === 'wal') file.close()
  const own = new DatabaseSync(path)
  expect(own.prepare('SELECT count(*) AS count FROM pet').get()).toEqual({ count: 1 })
  own.close()
})

test('what is no database, is not there or is in use is refused, and makes none', async () => {
  const directory = await temporaryDirectory()
  const text = join(directory, 'notes.txt')
  await writeFile(text, 'these are notes and no database')
  await using server = await startLocalServer({ dataDirectory: join(directory, 'data') })
  const create = (fromFile: string): Promise<unknown> => server.createDatabase('x', { fromFile })
  await expect(create(text)).rejects.toThrow(`${text} is not an SQLite database`)
  await expect(create(join(directory, 'missing.db'))).rejects.toThrow('missing.db cannot be read: ENOENT')
  await query(server.url, 'CREATE TABLE t (a)')
  const registry = await readFile(join(directory, 'data', 'registry.json'), 'utf8')
  const { databases } = JSON.parse(registry) as { databases: [{ id: string }] }
  const open = join(directory, 'data', 'databases', databases[0].id, 'data.db')
  await expect(create(open)).rejects.toThrow('in use by a local server')
  expect(server.databaseNames).toEqual(['default'])
  expect(await server.createDatabase('x')).toMatchObject({ url: expect.stringMatching(/\/x\/$/) })
})

test('a database is written to a file that every SQLite opens, and goes on', async () => {
  const target = join(await temporaryDirectory(), 'out.db')
  await using server = await startLocalServer()
  await query(server.url, 'CREATE TABLE t (a)')
  await query(server.url, "INSERT INTO t VALUES ('kept')")
  const open = await pipeline(server.url, [execute('BEGIN'), execute("INSERT INTO t VALUES ('lost')")])
  await server.exportDatabase('default', target)
  const file = new DatabaseSync(target, { readOnly: true })
  expect(file.prepare('SELECT a FROM t').all()).toEqual([{ a: 'kept' }])
  file.close()
  await query(server.url, "INSERT INTO t VALUES ('later')")
  expect(await query(server.url, 'SELECT a FROM t')).toEqual([['kept'], ['later']])
  expect((await pipeline(server.url, [execute('COMMIT')], { baton: open.baton })).status).toBe(400)
  await expect(server.exportDatabase('default', target)).rejects.toThrow(
    'exists already, and is not overwritten',
  )
  await expect(server.exportDatabase('nosuch', target)).rejects.toThrow('there is no database "nosuch"')
})

test('a database that was never written to is an empty file', async () => {
  const target = join(await temporaryDirectory(), 'out.db')
  await using server = await startLocalServer()
  await server.exportDatabase('default', target)
  const file = new DatabaseSync(target)
  expect(file.prepare('SELECT count(*) AS count FROM sqlite_schema').get()).toEqual({ count: 0 })
  file.close()
})

test.skipIf(!hasSqld)('libsql-server takes and gives no files', async () => {
  const directory = await temporaryDirectory()
  await using server = await startLocalServer({ backend: 'sqld' })
  await expect(server.createDatabase('x', { fromFile: join(directory, 'x.db') })).rejects.toThrow(
    '"embedded" only',
  )
  await expect(server.exportDatabase('default', join(directory, 'y.db'))).rejects.toThrow('"embedded" only')
  expect([server.databaseNames, existsSync(join(directory, 'y.db'))]).toEqual([['default'], false])
})
