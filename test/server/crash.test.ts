import { readFileSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { describe, expect, onTestFinished, test } from 'vitest'
import { hasSqld } from '../support/has-sqld.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { killServer, startDevServer } from './dev-server.ts'
import { startWith } from './start-with.ts'
import { close, codes, execute, pipeline, query } from './wire.ts'

const ENDLESS_SELECT =
  'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c'
const INSERT_RETURNING_INVALID_UTF8 = "INSERT INTO t VALUES (1) RETURNING random() || unhex('ff')"

describe('one database cannot affect another', () => {
  test('if a file cannot be opened, only its database returns 500, until the file is repaired', async () => {
    const dataDirectory = createTemporaryDirectory()
    await using server = await startLocalServer({ dataDirectory })
    const a = await createDatabase(dataDirectory, server, 'a')
    const b = await server.createDatabase('b')
    const transaction = await pipeline(b.url, [execute('BEGIN'), execute('CREATE TABLE t(a)')])
    const file = join(a.folder, 'data.db')
    await rename(file, `${file}-aside`)
    await mkdir(file)

    const failedReply = await pipeline(a.url, [execute('SELECT 1'), close])
    expect([failedReply.status, failedReply.text]).toEqual([
      500,
      expect.stringContaining('its log shows the reason'),
    ])
    expect((await pipeline(b.url, [execute('COMMIT'), close], { baton: transaction.baton })).status).toBe(200)
    await rm(file, { recursive: true })
    await rename(`${file}-aside`, file)
    expect(await query(a.url, 'SELECT 1')).toEqual([['1']])
  })

  test('text that is not UTF-8 in a write that returns rows ends only its own stream', async () => {
    await using server = await startWith('CREATE TABLE t(a)')
    const reader = await pipeline(server.url, [execute('BEGIN'), execute('SELECT * FROM t')])
    const transaction = await pipeline(server.url, [
      execute('BEGIN'),
      execute("INSERT INTO t VALUES ('lost')"),
    ])
    const failedReply = await pipeline(server.url, [execute(INSERT_RETURNING_INVALID_UTF8)], {
      baton: transaction.baton,
    })
    expect([failedReply.status, failedReply.text]).toEqual([
      500,
      expect.stringContaining('invalid utf-8 sequence'),
    ])
    const commit = await pipeline(server.url, [execute('COMMIT')], { baton: transaction.baton })
    expect(commit.status).toBe(400)
    const read = await pipeline(server.url, [execute('COMMIT'), close], { baton: reader.baton })
    expect(codes(read)).toEqual(['ok', 'ok'])
    expect(await query(server.url, 'SELECT a FROM t')).toEqual([])
  })

  test('text that is not UTF-8 makes only its own pipeline fail', async () => {
    await using server = await startLocalServer()
    const stream = await pipeline(server.url, [execute('CREATE TABLE t(a)')])
    const failures = {
      "CAST(x'4142ff' AS TEXT)": 'invalid utf-8 sequence of 1 bytes from index 2',
      "CAST(x'41c3' AS TEXT)": 'incomplete utf-8 byte sequence from index 1',
    }
    for (const [text, error] of Object.entries(failures)) {
      const failedReply = await pipeline(server.url, [execute(`SELECT 'fine', ${text}`), close])
      expect([failedReply.status, failedReply.text]).toEqual([500, JSON.stringify({ error })])
    }
    expect(
      codes(await pipeline(server.url, [execute('SELECT * FROM t'), close], { baton: stream.baton })),
    ).toEqual(['ok', 'ok'])
  })

  test('an endless statement does not block other databases, and ends soon after its client has disconnected', async () => {
    await using server = await startLocalServer()
    const a = await server.createDatabase('a')
    const b = await server.createDatabase('b')
    await query(a.url, 'CREATE TABLE t(a)')
    const controller = new AbortController()
    const endless = pipeline(a.url, [execute(ENDLESS_SELECT), close], { signal: controller.signal })
    endless.catch(() => {})
    await sleep(300)
    expect(await query(b.url, 'SELECT 1')).toEqual([['1']])
    const queued = Array.from({ length: 5 }, () => query(a.url, 'SELECT count(*) FROM t'))
    await sleep(50)
    controller.abort()
    await expect(endless).rejects.toThrow()
    expect(await Promise.all(queued)).toEqual(Array.from({ length: 5 }, () => [['0']]))
  })
})

test('a statement whose client has disconnected ends at once, and affects no other transaction', async () => {
  await using server = await startWith('CREATE TABLE t(a)')
  const transaction = await pipeline(server.url, [execute('BEGIN'), execute('INSERT INTO t VALUES (1)')])
  await expect(
    pipeline(server.url, [execute(ENDLESS_SELECT), close], { signal: AbortSignal.timeout(100) }),
  ).rejects.toThrow()
  expect(codes(await pipeline(server.url, [execute('COMMIT'), close], { baton: transaction.baton }))).toEqual(
    ['ok', 'ok'],
  )
  expect(await query(server.url, 'SELECT a FROM t')).toEqual([['1']])
})

/** Creates a database, and returns its URL and the folder of its files. */
async function createDatabase(dataDirectory: string, server: LocalServer, databaseName: string) {
  const root = join(dataDirectory, 'databases')
  const before = await readdir(root)
  const { url } = await server.createDatabase(databaseName)
  const [id = ''] = (await readdir(root)).filter((name) => !before.includes(name))
  return { url, folder: join(root, id) }
}

describe.each(['embedded', ...(hasSqld ? ['sqld'] : [])])(
  'SIGKILL of a server with back end %s',
  (backend) => {
    test('during 1,000 writes loses no acknowledged write', async () => {
      const directory = createTemporaryDirectory()
      const crashed = await startDevServer(directory, backend)
      await query(crashed.url, 'CREATE TABLE t(a INTEGER PRIMARY KEY)')
      let acknowledged = 0
      const killing = sleep(400).then(async () => {
        // the disk may be slow if it is busy
        await expect.poll(() => acknowledged, { interval: 10 }).toBeGreaterThanOrEqual(20)
        await killServer(crashed)
      })
      try {
        for (; acknowledged < 1_000; acknowledged += 1)
          await query(crashed.url, `INSERT INTO t VALUES (${acknowledged})`)
      } catch {
        // the connection was lost: this write may or may not have been applied
      }
      await killing
      const restarted = await startDevServer(directory, backend)
      onTestFinished(() => killServer(restarted))
      const [[count] = []] = await query(restarted.url, 'SELECT count(*) FROM t')
      expect(acknowledged).toBeGreaterThan(10)
      expect([acknowledged, acknowledged + 1]).toContain(Number(count))
      expect(await query(restarted.url, 'SELECT * FROM pragma_integrity_check')).toEqual([['ok']])
    })

    test.skipIf(process.platform !== 'linux')('ends all of its processes, even a busy one', async () => {
      const server = await startDevServer(createTemporaryDirectory(), backend)
      const endless = pipeline(server.url, [execute(ENDLESS_SELECT), close])
      endless.catch(() => {})
      await sleep(200)
      const children = readChildPids(server.child.pid as number)
      await killServer(server)
      // the embedded engine is a thread of the server's own process
      expect(children.length).toBeGreaterThanOrEqual(backend === 'sqld' ? 1 : 0)
      children.push(server.child.pid as number)
      const deadline = Date.now() + 5_000
      while (children.some(isRunning) && Date.now() < deadline) await sleep(50)
      expect(children.filter(isRunning)).toEqual([])
    })
  },
)

function readChildPids(pid: number): number[] {
  const list = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim()
  return list === '' ? [] : list.split(' ').map(Number)
}

function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'))
  } catch {
    return false
  }
}

test('other programs cannot open a database while it is open in the server; after close(), it is a plain file', async () => {
  const dataDirectory = createTemporaryDirectory()
  const server = await startLocalServer({ dataDirectory })
  const { url, folder } = await createDatabase(dataDirectory, server, 'app')
  await query(url, 'CREATE TABLE t(a)')
  await query(url, "INSERT INTO t VALUES ('kept')")
  const file = join(folder, 'data.db')
  const read = (): unknown => new DatabaseSync(file, { readOnly: true }).prepare('SELECT a FROM t').all()
  expect(read).toThrow('file is not a database')
  await server.close()
  expect(read()).toEqual([{ a: 'kept' }])
})

describe('close() while clients are active leaves a plain file with all data', () => {
  test.each(['a cursor that is partly read', 'a statement that never ends', 'a write that is partly read'])(
    '%s',
    async (activity) => {
      const dataDirectory = createTemporaryDirectory()
      const server = await startLocalServer({ dataDirectory })
      const { url, folder } = await createDatabase(dataDirectory, server, 'app')
      await query(url, 'CREATE TABLE t(a)')
      await query(url, "INSERT INTO t VALUES ('kept')")
      const selectManyRows = 'SELECT hex(randomblob(50)) FROM generate_series(1, 1000000)'
      if (activity === 'a statement that never ends') {
        pipeline(url, [execute(ENDLESS_SELECT), close]).catch(() => {})
        await sleep(200)
      } else {
        const sql =
          activity === 'a cursor that is partly read'
            ? selectManyRows
            : `INSERT INTO t ${selectManyRows} RETURNING a`
        const body = JSON.stringify({ batch: { steps: [{ stmt: { sql } }] } })
        const response = await fetch(`${url}v3/cursor`, { method: 'POST', body })
        await response.body?.getReader().read()
      }
      await server.close()
      expect(await readdir(folder)).toEqual(['data.db'])
      const rows = new DatabaseSync(join(folder, 'data.db')).prepare('SELECT a FROM t').all()
      expect(rows).toEqual([{ a: 'kept' }])
    },
  )
})

test('a restart keeps databases, names, settings and the signing key', async () => {
  const dataDirectory = createTemporaryDirectory()
  const firstServer = await startLocalServer({ dataDirectory, auth: true })
  const { authToken } = await firstServer.createDatabase('app', {
    blockWrites: true,
    blockReason: 'closed for today',
  })
  await firstServer.updateDatabase('app', { blockWrites: false })
  await query(`${firstServer.url}/app`, 'CREATE TABLE t(a)', { token: authToken as string })
  await firstServer.updateDatabase('app', { blockWrites: true })
  const stream = await pipeline(`${firstServer.url}/app`, [], { token: authToken as string })
  await firstServer.close()

  await using restarted = await startLocalServer({ dataDirectory, auth: true })
  const token = authToken as string
  expect(await query(`${restarted.url}/app`, 'SELECT count(*) FROM t', { token })).toEqual([['0']])
  const write = await pipeline(`${restarted.url}/app`, [execute('INSERT INTO t VALUES (1)'), close], {
    token,
  })
  expect(write.results[0]?.error).toEqual({
    code: 'BLOCKED',
    message: 'Operation was blocked: closed for today',
  })
  const staleReply = await pipeline(`${restarted.url}/app`, [], { baton: stream.baton, token })
  expect([staleReply.status, staleReply.text]).toEqual([400, 'Received an invalid baton'])
  await expect(startLocalServer({ dataDirectory })).rejects.toThrow('in use by process')
})
