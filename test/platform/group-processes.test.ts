import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { isRunning } from '../support/is-running.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { groupFolders, Harness, sql } from './platform-harness.ts'

/** The maximum number of streams of a libsql-server. */
const MAX_STREAMS = 128

/** Finds the process ids of the running servers, by group id. */
async function findProcesses(directory: string): Promise<ReadonlyMap<string, number>> {
  const pids = new Map<string, number>()
  for (const folder of await groupFolders(directory)) {
    const file = join(folder, 'sqld.pid')
    if (existsSync(file)) pids.set(basename(folder), JSON.parse(await readFile(file, 'utf8')).pid)
  }
  return pids
}

/** Creates two groups with one database each. */
async function populate(
  harness: Harness,
): Promise<Record<'red' | 'blue', { group: string; host: string; token: string }>> {
  const createGroup = async (name: string) => {
    const { group } = await harness.createGroup(name)
    const { host } = await harness.createDatabase(name, { group: name })
    const token = await harness.tokenFor(name)
    expect((await sql(host, token, ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])).error).toBeNull()
    return { group: group.uuid as string, host, token }
  }
  return { red: await createGroup('red'), blue: await createGroup('blue') }
}

test('streams of a deleted database release their slots to other databases of the group', async () => {
  const harness = await Harness.forTest()
  const [deleted, remaining] = [await harness.createDatabase('gone'), await harness.createDatabase('kept')]
  const [deletedToken, remainingToken] = [await harness.tokenFor('gone'), await harness.tokenFor('kept')]
  await sql(remaining.host, remainingToken, 'CREATE TABLE t (a)')
  const streams = Array.from({ length: MAX_STREAMS }, () =>
    sql(deleted.host, deletedToken, 'SELECT 1', { keepOpen: true }),
  )
  expect(new Set((await Promise.all(streams)).map(({ status }) => status))).toEqual(new Set([200]))
  expect((await sql(remaining.host, remainingToken, 'SELECT count(*) FROM t')).status).toBe(429)
  await harness.requestOk('DELETE', 'databases/gone')
  expect((await sql(remaining.host, remainingToken, 'SELECT count(*) FROM t')).rows).toEqual([['0']])
})

describe.runIf(inject('target') === 'sqld')('the libsql-server of a group', () => {
  test('is stopped and its data removed when the group is deleted; another group’s libsql-server keeps running', async () => {
    const directory = createTemporaryDirectory()
    await using harness = await Harness.start({}, directory)
    const { red, blue } = await populate(harness)
    const pids = await findProcesses(directory)
    const [redPid, bluePid] = [pids.get(red.group) ?? 0, pids.get(blue.group) ?? 0]
    expect([isRunning(redPid), isRunning(bluePid), redPid === bluePid]).toEqual([true, true, false])
    const transaction = await sql(blue.host, blue.token, ['BEGIN', 'INSERT INTO t VALUES (2)'], {
      keepOpen: true,
    })
    await harness.requestOk('DELETE', 'groups/red')
    expect([isRunning(redPid), existsSync(join(directory, 'sqld', red.group))]).toEqual([false, false])
    expect((await sql(blue.host, blue.token, 'COMMIT', { baton: transaction.baton })).error).toBeNull()
    expect((await sql(red.host, red.token, 'SELECT 1')).status).toBe(404)
    // a group without a database has nothing to stop
    await harness.createGroup('empty')
    await harness.requestOk('DELETE', 'groups/empty')
  })

  test('the folder of a deleted group is removed after a crash; other folders are kept', async () => {
    const directory = createTemporaryDirectory()
    {
      await using harness = await Harness.start({}, directory)
      await populate(harness)
    }
    const folders = join(directory, 'sqld')
    const unknownId = '00000000-0000-4000-8000-000000000000'
    const removedFolder = join(folders, `${unknownId}.removed`)
    const emptyFolder = join(folders, unknownId.replace('4000', '4001'))
    const fullFolder = join(folders, unknownId.replace('4000', '4002'), 'sqld')
    for (const folder of [
      join(removedFolder, 'sqld', 'dbs', unknownId),
      emptyFolder,
      join(fullFolder, 'dbs', unknownId),
      join(folders, 'notes'),
    ])
      await mkdir(folder, { recursive: true })
    for (const _ of ['once', 'twice']) await (await Harness.start({}, directory))[Symbol.asyncDispose]()
    expect([removedFolder, emptyFolder, join(folders, 'notes')].map((folder) => existsSync(folder))).toEqual([
      false,
      false,
      true,
    ])
    // a folder that no known group owns
    expect(existsSync(join(fullFolder, 'dbs-set-aside', unknownId))).toBe(true)
  })

  test('does not affect another group when it crashes', async () => {
    const directory = createTemporaryDirectory()
    await using harness = await Harness.start({}, directory)
    const { red, blue } = await populate(harness)
    const transaction = await sql(blue.host, blue.token, ['BEGIN', 'INSERT INTO t VALUES (2)'], {
      keepOpen: true,
    })
    process.kill((await findProcesses(directory)).get(red.group) ?? 0, 'SIGKILL')
    await expect.poll(async () => (await sql(red.host, red.token, 'SELECT a FROM t')).rows).toEqual([['1']])
    expect((await sql(blue.host, blue.token, 'COMMIT', { baton: transaction.baton })).error).toBeNull()
  })

  test('has its own streams, which another group cannot exhaust', async () => {
    await using harness = await Harness.start()
    const { red, blue } = await populate(harness)
    const open = () => sql(red.host, red.token, 'SELECT 1', { keepOpen: true })
    const streams = await Promise.all(Array.from({ length: MAX_STREAMS }, open))
    expect(streams.filter(({ status }) => status === 200).length).toBeGreaterThan(MAX_STREAMS - 8)
    expect((await open()).status).not.toBe(200)
    expect((await sql(blue.host, blue.token, 'SELECT a FROM t')).rows).toEqual([['1']])
  })

  /** Returns the number of rows written according to the file that libsql-server saves every 5 s. */
  async function readSavedRowsWritten(directory: string, databaseId: string): Promise<number> {
    const files = await readdir(directory, { recursive: true })
    const file = files.find((path) => path.endsWith(join('dbs', databaseId, 'stats.json')))
    if (file === undefined) return 0
    return (JSON.parse(await readFile(join(directory, file), 'utf8')) as { rows_written: number })
      .rows_written
  }

  test('keeps its counts after a restart, without counting anything twice (takes 5 s)', async () => {
    const directory = createTemporaryDirectory()
    const getRowsWritten = async (harness: Harness): Promise<number> =>
      (await harness.requestOk('GET', 'databases/red/usage')).database.total.rows_written
    let before = 0
    {
      await using harness = await Harness.start({}, directory)
      await populate(harness)
      const { database } = await harness.requestOk('GET', 'databases/red')
      before = await getRowsWritten(harness)
      expect(before).toBeGreaterThan(0)
      const saved = () => readSavedRowsWritten(directory, database.DbId).catch(() => 0)
      await expect.poll(saved, { timeout: 60_000 }).toBe(before)
    }
    for (const round of [1, 2]) {
      await using harness = await Harness.start({}, directory)
      expect(await getRowsWritten(harness)).toBe(before + round - 1)
      const { database } = await harness.requestOk('GET', 'databases/red')
      await sql(database.Hostname, await harness.tokenFor('red'), 'INSERT INTO t VALUES (2)')
      expect(await getRowsWritten(harness)).toBe(before + round)
    }
  })

  test('starts with the first request after a restart, and applies the changes made in the meantime', async () => {
    const directory = createTemporaryDirectory()
    let previous = { host: '', token: '' }
    let group = ''
    {
      await using harness = await Harness.start({}, directory)
      const { red } = await populate(harness)
      previous = red
      group = red.group
    }
    await using harness = await Harness.start({}, directory)
    expect((await findProcesses(directory)).size).toBe(0)
    await harness.requestOk('POST', 'databases/red/auth/rotate')
    await harness.configure('red', { block_writes: true })
    expect((await findProcesses(directory)).size).toBe(0)
    const { database } = await harness.requestOk('GET', 'databases/red')
    expect((await sql(database.Hostname, previous.token, 'SELECT 1')).status).toBe(401)
    const token = await harness.tokenFor('red')
    expect((await sql(database.Hostname, token, 'SELECT a FROM t')).rows).toEqual([['1']])
    expect((await sql(database.Hostname, token, 'INSERT INTO t VALUES (2)')).error).toContain('BLOCKED')
    expect([...(await findProcesses(directory)).keys()]).toEqual([group])
    // the other group's usage is known without starting its libsql-server
    await harness.requestOk('GET', 'databases/blue/usage')
    expect((await findProcesses(directory)).size).toBe(1)
  })
})

test('a copy in another group has the rows, and does not affect the original', async () => {
  await using harness = await Harness.start()
  await populate(harness)
  const seed = { type: 'database', name: 'red' }
  const { host } = await harness.createDatabase('copy', { group: 'blue', seed })
  const token = await harness.tokenFor('copy')
  expect(
    (await sql(host, token, 'INSERT INTO t VALUES (2) RETURNING (SELECT count(*) FROM t)')).error,
  ).toBeNull()
  const { database } = await harness.requestOk('GET', 'databases/red')
  const count = await sql(database.Hostname, await harness.tokenFor('red'), 'SELECT count(*) FROM t')
  expect(count.rows).toEqual([['1']])
})
