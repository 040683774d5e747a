import { readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, inject, onTestFinished, test } from 'vitest'
import { runBaton } from '../support/baton-command.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { groupFolders, Harness, sql } from './platform-harness.ts'

async function sendRequest(host: string, token: string): Promise<Response> {
  return await fetch(`http://${host}/export/1`, { headers: { authorization: `Bearer ${token}` } })
}

/** Returns the result of a file's integrity check, and the contents of its table `account`. */
function inspect(file: string) {
  const database = new DatabaseSync(file)
  try {
    return [
      database.prepare('PRAGMA integrity_check').get()?.['integrity_check'],
      database.prepare('SELECT count(*) AS count, sum(amount) AS sum FROM account').get(),
    ]
  } finally {
    database.close()
  }
}

test('each export is a snapshot of the database, and does not block writers', async () => {
  const harness = await Harness.forTest()
  const directory = createTemporaryDirectory()
  const { host, token } = await harness.openDatabase('app')
  const reader = await harness.tokenFor('app', '?authorization=read-only')
  const creation = await sql(host, token, [
    'CREATE TABLE account (id INTEGER PRIMARY KEY, amount INT, note)',
    `WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500)
     INSERT INTO account SELECT x, 100, zeroblob(300) FROM n`,
  ])
  expect(creation.error).toBeNull()
  const stopController = new AbortController()
  const transfers = [1, 2].map(async (writer) => {
    let count = 0
    for (; !stopController.signal.aborted; count += 1) {
      const [from, to] = [1 + ((count * writer) % 250), 251 + (count % 250)]
      const transfer = await sql(host, token, [
        'BEGIN IMMEDIATE',
        `UPDATE account SET amount = amount - 1, note = zeroblob(${300 + (count % 300)}) WHERE id = ${from}`,
        `UPDATE account SET amount = amount + 1 WHERE id = ${to}`,
        'COMMIT',
      ])
      expect(transfer.error).toBeNull()
    }
    return count
  })
  for (let number = 0; number < 8; number += 1) {
    const response = await sendRequest(host, reader)
    expect(response.status).toBe(200)
    const file = join(directory, `${number}.db`)
    await writeFile(file, Buffer.from(await response.arrayBuffer()))
    expect(inspect(file)).toEqual(['ok', { count: 500, sum: 50_000 }])
  }
  const file = join(directory, 'last.db')
  await harness.server.exportDatabase('app', file)
  stopController.abort()
  for (const count of await Promise.all(transfers)) expect(count).toBeGreaterThan(0)
  expect(inspect(file)).toEqual(['ok', { count: 500, sum: 50_000 }])
  await expect(harness.server.exportDatabase('app', file)).rejects.toThrow('already exists')
})

test('an export needs a token for the database, and fails while reads are blocked', async () => {
  const harness = await Harness.forTest()
  const { host } = await harness.createDatabase('app')
  await harness.createDatabase('other')
  expect((await sendRequest(host, await harness.tokenFor('other'))).status).toBe(401)
  expect((await fetch(`http://${host}/export/1`)).status).toBe(401)
  const token = await harness.tokenFor('app')
  const empty = await sendRequest(host, token)
  expect(empty.status).toBe(200)
  await empty.arrayBuffer()
  const headers = { authorization: `Bearer ${token}` }
  const getStatus = async (method: string, path: string): Promise<number> =>
    (await fetch(`http://${host}${path}`, { method, headers })).status
  for (const method of ['GET', 'HEAD'])
    for (const [path, status] of Object.entries({ '/info': 200, '/export/2': 404 }))
      expect([method, path, await getStatus(method, path)]).toEqual([method, path, status])
  await harness.configure('app', { block_reads: true })
  expect([
    (await sendRequest(host, token)).status,
    (await (await sendRequest(host, token)).json()) as object,
  ]).toEqual([403, { error: 'Operation was blocked' }])
})

test('an export fails if its folder cannot be created, and the next one tries again', async () => {
  const directory = createTemporaryDirectory()
  await using harness = await Harness.start({}, directory)
  const { host, token } = await harness.openDatabase('app')
  const parents =
    inject('target') === 'embedded' ? [join(directory, 'databases')] : await groupFolders(directory)
  const folders = parents.map((parent) => join(parent, 'exports'))
  for (const folder of folders) await writeFile(folder, '')
  expect((await sendRequest(host, token)).status).toBe(500)
  for (const folder of folders) await rm(folder)
  expect((await sendRequest(host, token)).status).toBe(200)
})

test('at most four exports of a database run at a time; an abandoned one releases its slot, and other databases are not affected', async () => {
  const harness = await Harness.forTest()
  const { host, token } = await harness.openDatabase('app')
  // more than fits in the buffers between server and client
  const rows = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 24)'
  await sql(host, token, ['CREATE TABLE t (a)', `INSERT INTO t ${rows} SELECT zeroblob(1000000) FROM n`])
  const other = await harness.createDatabase('other')
  const unreadExports = await Promise.all([1, 2, 3, 4].map(() => sendRequest(host, token)))
  expect(unreadExports.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  const rejectedExport = await sendRequest(host, token)
  expect([rejectedExport.status, await rejectedExport.text()]).toEqual([
    503,
    expect.stringContaining('4 exports'),
  ])
  expect((await fetch(`http://${host}/info`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(
    200,
  )
  expect((await sendRequest(other.host, await harness.tokenFor('other'))).status).toBe(200)
  await unreadExports[0]?.body?.cancel()
  await expect.poll(async () => (await sendRequest(host, token)).status).toBe(200)
})

test('baton export --all exports a snapshot of every database of a running server without blocking writers', async () => {
  const harness = await Harness.forTest()
  const directory = createTemporaryDirectory()
  const tenants = ['one', 'two', 'three']
  const stopController = new AbortController()
  onTestFinished(() => stopController.abort())
  const transfers: Promise<void>[] = []
  for (const name of tenants) {
    const { host } = await harness.createDatabase(name)
    const token = await harness.tokenFor(name)
    await sql(host, token, [
      'CREATE TABLE account (id INTEGER PRIMARY KEY, amount INT)',
      'INSERT INTO account VALUES (1, 100), (2, 100)',
    ])
    const moveAmounts = async (): Promise<void> => {
      while (!stopController.signal.aborted)
        await sql(host, token, [
          'BEGIN IMMEDIATE',
          'UPDATE account SET amount = amount - 1 WHERE id = 1',
          'UPDATE account SET amount = amount + 1 WHERE id = 2',
          'COMMIT',
        ])
    }
    transfers.push(moveAmounts())
  }
  const { url, token, organization } = harness.platform
  const run = (...args: string[]) => runBaton(['export', ...args, '--api-url', url, '--token', token])
  const target = join(directory, 'all')
  expect(await run('--all', target)).toMatchObject({ code: 0, errors: '' })
  const file = join(directory, 'two.db')
  expect(await run('two', file)).toMatchObject({ code: 0, output: `exported two to ${file}\n` })
  stopController.abort()
  await Promise.all(transfers)
  const exportDirectory = join(target, organization)
  for (const path of [...tenants.map((name) => join(exportDirectory, `${name}.db`)), file]) {
    expect(inspect(path)).toEqual(['ok', { count: 2, sum: 200 }])
    expect((await stat(path)).mode & 0o777).toBe(0o600)
  }
  expect((await readdir(exportDirectory)).filter((name) => !name.endsWith('.db'))).toEqual([])

  // a database that cannot be read does not prevent the export of the others
  await harness.configure('two', { block_reads: true })
  const partialTarget = join(directory, 'some')
  const partialRun = await run('--all', partialTarget)
  expect([partialRun.code, partialRun.errors]).toEqual([
    1,
    expect.stringMatching(/^baton: 1 of \d+ databases were not exported:\n\S+two: .*403/),
  ])
  const exportedFiles = await readdir(join(partialTarget, organization))
  expect(['one.db', 'three.db'].filter((name) => !exportedFiles.includes(name))).toEqual([])
  expect(exportedFiles.filter((name) => name.startsWith('two'))).toEqual([])
  const repeatedRun = await run('--all', target)
  expect([repeatedRun.code, repeatedRun.errors]).toEqual([
    1,
    expect.stringContaining('one.db already exists'),
  ])
  expect(inspect(join(exportDirectory, 'one.db'))).toEqual(['ok', { count: 2, sum: 200 }])
  for (const args of [[], ['one'], ['--all', target, 'one'], ['one', file, '--all', target]])
    expect([args, (await run(...args)).code]).toEqual([args, 2])
  expect(await run('nope', join(directory, 'nope.db'))).toMatchObject({
    code: 1,
    errors: expect.stringContaining('database "nope" does not exist'),
  })
})
