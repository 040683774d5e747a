import { existsSync } from 'node:fs'
import { cp, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { expect, inject, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { databaseFolders, Harness, sql } from './platform-harness.ts'

test('a copy of the data directory of a stopped server is a complete backup', async () => {
  const root = createTemporaryDirectory()
  const [data, backup] = [join(root, 'data'), join(root, 'backup')]
  let token = ''
  {
    await using harness = await Harness.start({}, data)
    const { host } = await harness.createDatabase('app')
    token = await harness.tokenFor('app')
    await sql(host, token, ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
  }
  await cp(data, backup, { recursive: true })
  {
    await using harness = await Harness.start({}, data)
    await harness.requestOk('DELETE', 'databases/app')
  }
  await using harness = await Harness.start({}, backup)
  const { database } = await harness.requestOk('GET', 'databases/app')
  expect((await sql(database.Hostname, token, 'SELECT a FROM t')).rows).toEqual([['1']])
})

/** Ways to lose a database. */
const LOSSES: Readonly<Record<string, (folder: string, file: string) => Promise<void>>> = {
  folder: (folder) => rm(folder, { recursive: true }),
  file: (_, file) => rm(file),
  content: (_, file) => truncate(file),
}

async function locateFile(data: string, id: string): Promise<[folder: string, file: string]> {
  const name = inject('target') === 'embedded' ? 'data.db' : 'data'
  const folders = (await databaseFolders(data)).map((folder) => join(folder, id))
  const folder = folders.find((path) => existsSync(join(path, name))) ?? ''
  return [folder, join(folder, name)]
}

test.each(Object.keys(LOSSES))(
  'a database without its %s responds with 404, and is not created again',
  async (loss) => {
    const data = createTemporaryDirectory()
    const ids = new Map<string, string>()
    {
      await using harness = await Harness.start({}, data)
      for (const name of ['kept', 'never', 'stopped', 'running']) {
        const { host, id } = await harness.createDatabase(name)
        ids.set(name, id)
        if (name !== 'never') await sql(host, await harness.tokenFor(name), 'CREATE TABLE t (a)')
      }
    }
    const removeData = async (name: string): Promise<string> => {
      const [folder, file] = await locateFile(data, ids.get(name) ?? '')
      await (LOSSES[loss] as (typeof LOSSES)[string])(folder, file)
      return file
    }
    const files = [await removeData('stopped')]
    const consoleError = vi.spyOn(console, 'error').mockReturnValue()
    await using harness = await Harness.start({}, data)
    expect(consoleError.mock.calls.flat()).toEqual([
      expect.stringMatching(/stopped: its file is missing or empty/),
    ])
    files.push(await removeData('running'))
    const { database } = await harness.requestOk('GET', 'databases/kept')
    const sendRequest = async (name: string, text: string): Promise<number> =>
      (await sql(database.Hostname.replace('kept', name), await harness.tokenFor(name), text)).status
    for (const name of ['stopped', 'running'])
      for (const text of ['SELECT 1', 'CREATE TABLE t (a)'])
        expect([name, await sendRequest(name, text)]).toEqual([name, 404])
    // once, not with each request
    expect(consoleError.mock.calls.flat().slice(1)).toEqual([
      expect.stringMatching(/running: the file of this database is missing or empty; requests get 404/),
    ])
    for (const file of files) expect((await stat(file).catch(() => ({ size: 0 }))).size).toBe(0)
    const fork = { name: 'fork', group: 'default', seed: { type: 'database', name: 'running' } }
    expect(await harness.statusOf('POST', 'databases', { body: fork })).toBe(400)
    // an empty snapshot would look like the content
    const snapshots = 'databases/running/snapshots'
    expect(await harness.statusOf('POST', snapshots, { body: {} })).toBe(400)
    expect((await harness.requestOk('GET', snapshots)).snapshots).toEqual([])
    expect([await sendRequest('kept', 'SELECT * FROM t'), await sendRequest('never', 'SELECT 1')]).toEqual([
      200, 200,
    ])
    const existing = { body: { name: 'stopped', group: 'default' } }
    expect(await harness.statusOf('POST', 'databases', existing)).toBe(409)
    for (const name of ['stopped', 'running']) await harness.requestOk('DELETE', `databases/${name}`)
    await harness.createDatabase('running')
    expect(await sendRequest('running', 'SELECT 1')).toBe(200)
  },
)

test('a server starts although the file of a database that its options name is missing', async () => {
  const dataDirectory = createTemporaryDirectory()
  const backend = inject('target') as 'embedded' | 'sqld'
  const start = () => startLocalServer({ backend, dataDirectory, platform: {}, databases: { app: {} } })
  let id = ''
  {
    await using server = await start()
    id = server.databaseId('app')
    await using db = createClient({ url: server.urlOf('app'), authToken: await server.createToken('app') })
    await db.execute('create table t (a)')
  }
  const [folder] = await locateFile(dataDirectory, id)
  await rm(folder, { recursive: true })
  const consoleError = vi.spyOn(console, 'error').mockReturnValue()
  await using server = await start()
  expect(consoleError.mock.calls.flat()).toEqual([
    expect.stringMatching(/^app: its file is missing or empty: .* until it is deleted and created again/),
  ])
  expect((await fetch(`${server.urlOf('app')}health`)).status).toBe(404)
})

test('a damaged file affects only its own database, and the database works again when the file is repaired', async () => {
  const root = createTemporaryDirectory()
  const [data, copy] = [join(root, 'data'), join(root, 'copy')]
  let id = ''
  {
    await using harness = await Harness.start({}, data)
    id = (await harness.createDatabase('damaged')).id
    for (const name of ['damaged', 'kept']) {
      if (name === 'kept') await harness.createDatabase(name)
      const { database } = await harness.requestOk('GET', `databases/${name}`)
      await sql(database.Hostname, await harness.tokenFor(name), [
        'CREATE TABLE t (a)',
        'INSERT INTO t VALUES (1)',
      ])
    }
  }
  const [folder, file] = await locateFile(data, id)
  await cp(folder, copy, { recursive: true })
  // otherwise libsql-server recreates the file from its logs
  for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true })
  await writeFile(file, Buffer.alloc(8_192, 'x'))
  const consoleError = vi.spyOn(console, 'error').mockReturnValue()
  await using harness = await Harness.start({}, data)
  const sendRequest = async (name: string) => {
    const { database } = await harness.requestOk('GET', `databases/${name}`)
    return await sql(database.Hostname, await harness.tokenFor(name), 'SELECT a FROM t')
  }
  for (let round = 0; round < 3; round += 1)
    expect([(await sendRequest('damaged')).status, (await sendRequest('kept')).rows]).toEqual([500, [['1']]])
  if (inject('target') === 'sqld')
    expect(consoleError.mock.calls.flat()).toEqual([
      expect.stringMatching(/^damaged: libsql-server cannot use this database: /),
    ])
  await rm(folder, { recursive: true })
  await cp(copy, folder, { recursive: true })
  expect((await sendRequest('damaged')).rows).toEqual([['1']])
})

test('close() while calls are in flight keeps acknowledged changes, and applies none partially', async () => {
  const data = createTemporaryDirectory()
  const firstHarness = await Harness.start({}, data)
  await firstHarness.createDatabase('doomed')
  const acknowledged: string[] = []
  const calls = Array.from({ length: 12 }, async (_, index) => {
    await firstHarness.createDatabase(`db-${index}`)
    acknowledged.push(`db-${index}`)
  })
  const deletion = firstHarness.requestOk('DELETE', 'databases/doomed')
  const settled = Promise.allSettled([deletion, ...calls])
  await Promise.race(calls)
  await firstHarness[Symbol.asyncDispose]()
  const isDeleted = (await settled)[0].status === 'fulfilled'

  await using harness = await Harness.start({}, data)
  const { databases } = await harness.requestOk('GET', 'databases')
  const names: string[] = databases.map(({ Name }: { Name: string }) => Name)
  expect(names).toEqual(expect.arrayContaining(acknowledged))
  if (isDeleted) expect(names).not.toContain('doomed')
  for (const { Name, Hostname } of databases)
    expect((await sql(Hostname, await harness.tokenFor(Name), 'SELECT 1')).rows).toEqual([['1']])
})
