// Snapshots of databases: through the server's own methods, and through the platform API.
import { readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type LocalServer, type LocalServerOptions, startLocalServer } from '@batonsql/local-server'
import { createPlatformClient } from '@batonsql/platform'
import { expect, inject, onTestFinished, test, vi } from 'vitest'
import { autocommit, close, execute, pipeline, query } from '../server/wire.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { databaseFolders, Harness, sql } from './platform-harness.ts'

const backend = inject('target') as 'embedded' | 'sqld'

async function start(options: LocalServerOptions = {}): Promise<LocalServer> {
  const server = await startLocalServer({ backend, ...options })
  onTestFinished(() => server.close())
  return server
}

const listFiles = async ({ dataDirectory }: LocalServer): Promise<readonly string[]> =>
  await readdir(join(dataDirectory, 'snapshots')).catch(() => [])

test('a snapshot is one state while transactions are committed, and becomes a database of its own', async () => {
  const server = await start()
  await query(server.url, 'CREATE TABLE first (a)')
  await query(server.url, 'CREATE TABLE second (a)')
  const end = new AbortController()
  const write = async (): Promise<void> => {
    while (!end.signal.aborted) {
      const statements = ['BEGIN', 'INSERT INTO first VALUES (1)', 'INSERT INTO second VALUES (1)', 'COMMIT']
      await pipeline(server.url, [...statements.map((text) => execute(text)), close])
    }
  }
  const writing = write()
  const before = new Date()
  for (const name of ['a', 'b', 'c']) await server.createSnapshot('default', name)
  end.abort()
  await writing
  const snapshots = server.listSnapshots('default')
  expect(snapshots.map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  for (const { bytes, createdAt } of snapshots) {
    expect(bytes % 4_096).toBe(0)
    expect(+createdAt).toBeGreaterThanOrEqual(+before)
  }
  for (const { name } of snapshots) {
    const { url } = await server.createDatabase(`fork-${name}`, {
      fromDatabase: 'default',
      fromSnapshot: name,
    })
    const [[first, second]] = (await query(
      url,
      'SELECT (SELECT count(*) FROM first), (SELECT count(*) FROM second)',
    )) as [[string, string]]
    expect(first).toBe(second)
    expect(await query(url, 'PRAGMA integrity_check')).toEqual([['ok']])
  }
})

test('a restored database has the content of its snapshot, a new id, and none of the old access', async () => {
  const server = await start({ auth: true })
  const { url, authToken: token = '' } = await server.createDatabase('app', { allowAttach: true })
  await query(url, 'CREATE TABLE pet (name)', { token })
  await query(url, "INSERT INTO pet VALUES ('Rex')", { token })
  await server.createSnapshot('app', 'before')
  await query(url, 'DELETE FROM pet', { token })
  const id = server.databaseId('app')
  const { baton } = await pipeline(url, [execute('BEGIN IMMEDIATE'), autocommit], { token })

  const restored = await server.restoreSnapshot('app', 'before')
  expect(restored.url).toBe(url)
  expect(server.databaseId('app')).not.toBe(id)
  expect((await pipeline(url, [execute('COMMIT')], { token, baton })).status).not.toBe(200)
  expect((await pipeline(url, [execute('SELECT 1')], { token })).status).toBe(401)
  const access = { token: restored.authToken ?? '' }
  expect((await pipeline(url, [execute('COMMIT')], { ...access, baton })).status).not.toBe(200)
  expect(await query(url, 'SELECT name FROM pet', access)).toEqual([['Rex']])
  await query(url, "INSERT INTO pet VALUES ('Tom')", access)
  expect(server.databaseNames).toEqual(['default', 'app'])
  // the snapshots belong to the restored database, which can be restored again
  expect(server.listSnapshots('app').map(({ name }) => name)).toEqual(['before'])
  const again = await server.restoreSnapshot('app', 'before')
  expect(await query(url, 'SELECT name FROM pet', { token: again.authToken ?? '' })).toEqual([['Rex']])
})

test('a database keeps its content and accepts requests again if it cannot be restored', async () => {
  const server = await start()
  await query(server.url, 'CREATE TABLE pet (name)')
  await server.createSnapshot('default', 'damaged')
  const [file = ''] = await listFiles(server)
  await writeFile(join(server.dataDirectory, 'snapshots', file), 'not a database')
  await query(server.url, "INSERT INTO pet VALUES ('Rex')")
  const id = server.databaseId('default')
  const { baton } = await pipeline(server.url, [execute('BEGIN IMMEDIATE'), autocommit])
  await expect(server.restoreSnapshot('default', 'damaged')).rejects.toThrow('is not an SQLite database')
  await expect(server.restoreSnapshot('default', 'missing')).rejects.toThrow('could not find snapshot')
  await expect(server.restoreSnapshot('nowhere', 'damaged')).rejects.toThrow('does not exist')
  expect([server.databaseId('default'), server.databaseNames]).toEqual([id, ['default']])
  // access ended first: the transaction does not hold the write lock any longer
  expect((await pipeline(server.url, [autocommit], { baton })).status).toBe(400)
  await query(server.url, "INSERT INTO pet VALUES ('Tom')")
  expect(await query(server.url, 'SELECT name FROM pet')).toEqual([['Rex'], ['Tom']])
})

test('two restores at a time: one succeeds, and the database has the content of the snapshot', async () => {
  const server = await start()
  await query(server.url, 'CREATE TABLE pet (name)')
  await server.createSnapshot('default', 'empty')
  await query(server.url, "INSERT INTO pet VALUES ('Rex')")
  const outcomes = await Promise.allSettled([1, 2].map(() => server.restoreSnapshot('default', 'empty')))
  expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  expect(await query(server.url, 'SELECT name FROM pet')).toEqual([])
  expect(server.databaseNames).toEqual(['default'])
})

test('snapshots have unique, valid names, are limited in number, and are deleted with their database', async () => {
  const server = await start()
  await server.createDatabase('other')
  for (let count = 1; count < 50; count += 1) await server.createSnapshot('default', `s${count}`)
  const { name } = await server.createSnapshot('default')
  expect(name).toMatch(/^\d{4}(-\d\d){5}-\d{3}$/)
  await expect(server.createSnapshot('default', 'more')).rejects.toThrow('has 50 snapshots; delete one first')
  await server.deleteSnapshot('default', name)
  await expect(server.createSnapshot('default', 's1')).rejects.toThrow('already exists')
  for (const invalid of ['', '../x', 'A', 'x'.repeat(65)])
    await expect(server.createSnapshot('other', invalid)).rejects.toThrow('invalid snapshot name')
  await server.createDatabase('schema', { isSchema: true })
  await expect(server.createSnapshot('schema')).rejects.toThrow('shares its schema')
  await expect(server.deleteSnapshot('default', name)).rejects.toThrow('could not find snapshot')
  expect(await listFiles(server)).toHaveLength(49)
  await server.createSnapshot('other', 'kept')
  await server.deleteDatabase('default')
  expect(await listFiles(server)).toHaveLength(1)
  await server.createDatabase('default')
  expect(server.listSnapshots('default')).toEqual([])
})

test('snapshots outlive a restart, which removes files that an interrupted creation has left', async () => {
  const dataDirectory = createTemporaryDirectory()
  const first = await start({ dataDirectory })
  await query(first.url, 'CREATE TABLE pet (name)')
  await first.createSnapshot('default', 'kept')
  const files = await listFiles(first)
  await first.close()
  await writeFile(join(dataDirectory, 'snapshots', 'left-behind'), '')
  const second = await start({ dataDirectory })
  expect(await listFiles(second)).toEqual(files)
  await query(second.url, 'DROP TABLE pet')
  await second.restoreSnapshot('default', 'kept')
  expect(await query(second.url, 'SELECT name FROM pet')).toEqual([])
})

test('a snapshot of a database whose file was lost can be forked, and restored', async () => {
  const dataDirectory = createTemporaryDirectory()
  const first = await start({ dataDirectory })
  await query(first.url, 'CREATE TABLE pet (name)')
  await first.createSnapshot('default', 'kept')
  const id = first.databaseId('default')
  await first.close()
  for (const folder of await databaseFolders(dataDirectory))
    await rm(join(folder, id), { recursive: true, force: true })
  const second = await start({ dataDirectory, platform: {}, auth: false })
  expect(second.databaseNames).toEqual([])
  const { url = '', token = '', organization } = second.platform ?? {}
  const { databases } = createPlatformClient({ url, token, organization })
  await expect(databases.createSnapshot('default', {})).rejects.toThrow('its file is missing or empty')
  const fork = await second.createDatabase('fork', { fromDatabase: 'default', fromSnapshot: 'kept' })
  expect(await query(fork.url, 'SELECT name FROM pet')).toEqual([])
  await expect(second.createDatabase('copy', { fromDatabase: 'default' })).rejects.toThrow('is missing')
  await second.restoreSnapshot('default', 'kept')
  expect(second.databaseNames).toEqual(['fork', 'default'])
  expect(await query(second.url, 'SELECT name FROM pet')).toEqual([])
})

test('a database whose file is damaged is restored, or deleted', async () => {
  const dataDirectory = createTemporaryDirectory()
  const first = await start({ dataDirectory, databases: { other: {} } })
  await query(first.url, 'CREATE TABLE pet (name)')
  await first.createSnapshot('default', 'kept')
  const ids = [first.databaseId('default'), first.databaseId('other')]
  await first.close()
  for (const folder of await databaseFolders(dataDirectory))
    for (const id of ids) {
      const [file = ''] = (await readdir(join(folder, id))).filter((name) => /^data(?:\.db)?$/.test(name))
      // otherwise libsql-server recreates the file from its logs
      for (const name of await readdir(join(folder, id)))
        await rm(join(folder, id, name), { recursive: true })
      await writeFile(join(folder, id, file), Buffer.alloc(8_192, 'x'))
    }
  vi.spyOn(console, 'error').mockReturnValue()
  const second = await start({ dataDirectory })
  expect((await pipeline(second.url, [execute('SELECT 1')])).status).toBe(500)
  await second.restoreSnapshot('default', 'kept')
  expect(await query(second.url, 'SELECT name FROM pet')).toEqual([])
  await second.deleteDatabase('other')
  expect(second.databaseNames).toEqual(['default'])
  for (const folder of await databaseFolders(dataDirectory))
    expect(await readdir(folder)).toEqual([second.databaseId('default')])
})

test('the platform API has snapshots, and seed.timestamp copies the one of that time', async () => {
  const harness = await Harness.forTest()
  const { url, token, organization } = harness.platform
  const { databases, groups } = createPlatformClient({ url, token, organization })
  const { host } = await harness.createDatabase('app')
  await sql(host, await harness.tokenFor('app'), [
    'CREATE TABLE pet (name)',
    "INSERT INTO pet VALUES ('Rex')",
  ])
  const snapshot = await databases.createSnapshot('app', { name: 'before' })
  await sql(host, await harness.tokenFor('app'), 'DROP TABLE pet')
  expect(await databases.listSnapshots('app')).toEqual([snapshot])

  // on libsql-server, another group is another process
  await groups.create({ name: 'other', location: 'local' })
  const seed = { type: 'database', name: 'app', timestamp: snapshot.createdAt } as const
  const copy = await databases.create({ name: 'copy', group: 'other', seed })
  const names = await sql(copy.hostname, await harness.tokenFor('copy'), 'SELECT name FROM pet')
  expect(names.rows).toEqual([['Rex']])
  expect((await databases.get('copy')).parent?.name).toBe('app')
  const later = new Date(Date.parse(snapshot.createdAt) + 1)
  await expect(
    databases.create({ name: 'x', group: 'other', seed: { ...seed, timestamp: later } }),
  ).rejects.toThrow('must be the exact time of a snapshot')
  await databases.updateConfiguration('app', { blockReads: true })
  await expect(databases.create({ name: 'x', group: 'other', seed })).rejects.toThrow('blocked')

  await databases.updateConfiguration('app', { blockReads: false, deleteProtection: true })
  await expect(databases.restoreSnapshot('app', 'before')).rejects.toThrow('protected from deletion')
  await databases.updateConfiguration('app', { deleteProtection: false, sizeLimit: '1gb' })
  const { dbId } = await databases.restoreSnapshot('app', 'before')
  expect((await databases.get('app')).dbId).toBe(dbId)
  expect((await databases.get('copy')).parent).toMatchObject({ id: dbId, name: 'app' })
  expect((await databases.getConfiguration('app')).sizeLimit).toBe('1gb')
  const rows = (await sql(host, await harness.tokenFor('app'), 'SELECT name FROM pet')).rows
  expect(rows).toEqual([['Rex']])
  await databases.deleteSnapshot('app', 'before')
  await expect(databases.deleteSnapshot('app', 'before')).rejects.toMatchObject({ status: 404 })
})
