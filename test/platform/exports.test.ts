import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { Scene, sql } from './platform-scene.ts'

async function folder(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}

async function ask(host: string, token: string): Promise<Response> {
  return await fetch(`http://${host}/export/1`, { headers: { authorization: `Bearer ${token}` } })
}

/** What a file says of itself, and of the table `account`. */
function look(file: string) {
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

test('each export is one state of the database, and writers go on meanwhile', async () => {
  const scene = await Scene.forTest()
  const directory = await folder()
  const { host } = await scene.create('app')
  const token = await scene.tokenFor('app')
  const reader = await scene.tokenFor('app', '?authorization=read-only')
  const made = await sql(host, token, [
    'CREATE TABLE account (id INTEGER PRIMARY KEY, amount INT, note)',
    `WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500)
     INSERT INTO account SELECT x, 100, zeroblob(300) FROM n`,
  ])
  expect(made.error).toBeNull()
  const end = new AbortController()
  const transfers = [1, 2].map(async (writer) => {
    let count = 0
    for (; !end.signal.aborted; count += 1) {
      const [from, to] = [1 + ((count * writer) % 250), 251 + (count % 250)]
      const moved = await sql(host, token, [
        'BEGIN IMMEDIATE',
        `UPDATE account SET amount = amount - 1, note = zeroblob(${300 + (count % 300)}) WHERE id = ${from}`,
        `UPDATE account SET amount = amount + 1 WHERE id = ${to}`,
        'COMMIT',
      ])
      expect(moved.error).toBeNull()
    }
    return count
  })
  for (let number = 0; number < 8; number += 1) {
    const answer = await ask(host, reader)
    expect(answer.status).toBe(200)
    const file = join(directory, `${number}.db`)
    await writeFile(file, Buffer.from(await answer.arrayBuffer()))
    expect(look(file)).toEqual(['ok', { count: 500, sum: 50_000 }])
  }
  const file = join(directory, 'last.db')
  await scene.server.exportDatabase('app', file)
  end.abort()
  for (const count of await Promise.all(transfers)) expect(count).toBeGreaterThan(0)
  expect(look(file)).toEqual(['ok', { count: 500, sum: 50_000 }])
  await expect(scene.server.exportDatabase('app', file)).rejects.toThrow('is not overwritten')
})

test('an export is a read: not without a token, nor of another database, nor while reads are blocked', async () => {
  const scene = await Scene.forTest()
  const { host } = await scene.create('app')
  await scene.create('other')
  expect((await ask(host, await scene.tokenFor('other'))).status).toBe(401)
  expect((await fetch(`http://${host}/export/1`)).status).toBe(401)
  const token = await scene.tokenFor('app')
  const empty = await ask(host, token)
  expect(empty.status).toBe(200)
  await empty.arrayBuffer()
  const headers = { authorization: `Bearer ${token}` }
  const statusOf = async (method: string, path: string): Promise<number> =>
    (await fetch(`http://${host}${path}`, { method, headers })).status
  for (const method of ['GET', 'HEAD'])
    for (const [path, status] of Object.entries({ '/info': 200, '/export/2': 404 }))
      expect([method, path, await statusOf(method, path)]).toEqual([method, path, status])
  await scene.done('PATCH', `${scene.own}/databases/app/configuration`, { body: { block_reads: true } })
  expect([(await ask(host, token)).status, (await (await ask(host, token)).json()) as object]).toEqual([
    403,
    { error: 'Operation was blocked' },
  ])
})

test('four exports of a database are under way at most; one that is left makes room, and others are not concerned', async () => {
  const scene = await Scene.forTest()
  const { host } = await scene.create('app')
  const token = await scene.tokenFor('app')
  // more than the buffers on the way hold
  const rows = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 24)'
  await sql(host, token, ['CREATE TABLE t (a)', `INSERT INTO t ${rows} SELECT zeroblob(1000000) FROM n`])
  const other = await scene.create('other')
  const slow = await Promise.all([1, 2, 3, 4].map(() => ask(host, token)))
  expect(slow.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  const refused = await ask(host, token)
  expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining('4 exports')])
  expect((await fetch(`http://${host}/info`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(
    200,
  )
  expect((await ask(other.host, await scene.tokenFor('other'))).status).toBe(200)
  await slow[0]?.body?.cancel()
  await expect.poll(async () => (await ask(host, token)).status).toBe(200)
})
