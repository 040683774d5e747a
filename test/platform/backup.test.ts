import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { databaseFolders, Scene, sql } from './platform-scene.ts'

test('a copy of the data directory of a stopped server is a backup of everything', async () => {
  const root = await mkdtemp(join(tmpdir(), 'baton-backup-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const [data, backup] = [join(root, 'data'), join(root, 'backup')]
  let token = ''
  {
    await using scene = await Scene.start({}, data)
    const { host } = await scene.create('app')
    token = await scene.tokenFor('app')
    await sql(host, token, ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
  }
  await cp(data, backup, { recursive: true })
  {
    await using scene = await Scene.start({}, data)
    await scene.done('DELETE', `${scene.own}/databases/app`)
  }
  await using scene = await Scene.start({}, backup)
  const { database } = await scene.done('GET', `${scene.own}/databases/app`)
  expect((await sql(database.Hostname, token, 'SELECT a FROM t')).rows).toEqual([['1']])
})

test('a database whose files are lost is said to be lost, and not made anew; others go on', async () => {
  const data = await mkdtemp(join(tmpdir(), 'baton-backup-'))
  onTestFinished(() => rm(data, { recursive: true, force: true }))
  let lost = ''
  {
    await using scene = await Scene.start({}, data)
    lost = (await scene.create('lost')).id
    await scene.create('kept')
  }
  for (const folder of await databaseFolders(data))
    await rm(join(folder, lost), { recursive: true, force: true })
  await using scene = await Scene.start({}, data)
  const { database } = await scene.done('GET', `${scene.own}/databases/kept`)
  expect((await sql(database.Hostname, await scene.tokenFor('kept'), 'SELECT 1')).status).toBe(200)
  expect(
    (await sql(database.Hostname.replace('kept', 'lost'), await scene.tokenFor('lost'), 'SELECT 1')).status,
  ).toBe(404)
  const again = await scene.ask('POST', `${scene.own}/databases`, {
    body: { name: 'lost', group: 'default' },
  })
  expect(again.status).toBe(409)
  await scene.done('DELETE', `${scene.own}/databases/lost`)
  await scene.create('lost')
})

test('close() in the middle of calls: what was answered is there afterwards, nothing is half there', async () => {
  const data = await mkdtemp(join(tmpdir(), 'baton-backup-'))
  onTestFinished(() => rm(data, { recursive: true, force: true }))
  const first = await Scene.start({}, data)
  await first.create('doomed')
  const answered: string[] = []
  const calls = Array.from({ length: 12 }, async (_, at) => {
    await first.create(`db-${at}`)
    answered.push(`db-${at}`)
  })
  const deletion = first.done('DELETE', `${first.own}/databases/doomed`)
  const settled = Promise.allSettled([deletion, ...calls])
  await Promise.race(calls)
  await first[Symbol.asyncDispose]()
  const isDeleted = (await settled)[0].status === 'fulfilled'

  await using scene = await Scene.start({}, data)
  const { databases } = await scene.done('GET', `${scene.own}/databases`)
  const names: string[] = databases.map(({ Name }: { Name: string }) => Name)
  expect(names).toEqual(expect.arrayContaining(answered))
  if (isDeleted) expect(names).not.toContain('doomed')
  for (const { Name, Hostname } of databases)
    expect((await sql(Hostname, await scene.tokenFor(Name), 'SELECT 1')).rows).toEqual([['1']])
})
