/*
 * GET /dump and GET /beta/listen beyond the recorded cases: the contents of a dump, listeners with many concurrent writers,
 * permissions, and how dumps and listeners end.
 */
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'
import { describe, expect, test } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { startWith } from './start-with.ts'
import { close, codes, execute, pipeline, query } from './wire.ts'

const VALUES_SCRIPT = `CREATE TABLE v(a, b TEXT, c REAL, d BLOB);
  INSERT INTO v VALUES (1, 'it''s', 1.0, x''), (1.0, '', -0.0, x'00ff'), (9007199254740993, NULL, 9e999, NULL),
    (-9223372036854775808, 'line' || char(10) || 'break' || char(13) || '\\n', 1e300, zeroblob(3)),
    (9223372036854775807, 'nul' || char(0) || 'x', 5e-324, x'27'), (0.1, 'Ünï 😀', -9e999, NULL)`
const SELECT_VALUES = 'SELECT typeof(a), quote(a), hex(b), typeof(c), quote(c), quote(d) FROM v'

async function readDump(url: string, query = ''): Promise<string> {
  const response = await fetch(`${url.replace(/\/$/, '')}/dump${query}`)
  expect(response.status).toBe(200)
  return await response.text()
}

/** Reads the given number of events. @param onOpen called when the server has begun to listen */
async function readEvents(url: string, count: number, onOpen: () => void): Promise<string[]> {
  const controller = new AbortController()
  const response = await fetch(url, { signal: controller.signal })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
  onOpen()
  let text = ''
  for await (const part of response.body as ReadableStream<Uint8Array>) {
    text += Buffer.from(part).toString('utf8')
    if (text.split('\n\n').length > count) break
  }
  controller.abort()
  return text.split('\n\n').filter(Boolean)
}

test('HEAD responds at once, so that the next request on the connection is handled', async () => {
  await using server = await startWith('CREATE TABLE t(a)')
  const { host, hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  for (const line of ['HEAD /beta/listen?table=t', 'HEAD /dump', 'GET /health'])
    socket.write(`${line} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  let text = ''
  for await (const part of socket) {
    text += String(part)
    if (text.split('\r\n\r\n').length > 3) break
  }
  expect(text.match(/^HTTP.*$/gm)).toEqual(Array.from({ length: 3 }, () => 'HTTP/1.1 200 OK'))
})

describe('a dump', () => {
  test('of text that contains many line break markers is written quickly', async () => {
    await using server = await startLocalServer()
    const copy = await server.createDatabase('copy')
    await query(server.url, 'CREATE TABLE t(a TEXT)')
    // the markers are numbered, and searching for each in turn would take hours
    const markers = Array.from({ length: 300_000 }, (_unused, number) => `(\\n${number})`).join('')
    const text = `\\n\\012(\\n7777777)(\\n007)${markers}\n`
    await pipeline(server.url, [execute('INSERT INTO t VALUES (?)', text), close])
    const dump = await readDump(server.url)
    expect(dump).toContain('(\\n300000)')
    await pipeline(copy.url, [{ type: 'sequence', sql: dump }, close])
    expect(await query(copy.url, 'SELECT a FROM t')).toEqual([[text]])
  })

  test('of a view whose SQL ends with a comment can be loaded', async () => {
    await using server = await startLocalServer()
    await server.createDatabase('copy')
    await query(server.url, 'CREATE VIEW v AS SELECT 1 AS a -- one')
    await query(server.url, "CREATE VIEW w AS SELECT '--' AS a")
    const dump = await readDump(server.url)
    expect(dump).toContain("CREATE VIEW v AS SELECT 1 AS a -- one\n;\nCREATE VIEW w AS SELECT '--' AS a;\n")
    const reply = await pipeline(server.urlOf('copy'), [{ type: 'sequence', sql: dump }, close])
    expect(codes(reply)).toEqual(['ok', 'ok'])
    expect(await query(server.urlOf('copy'), 'SELECT v.a, w.a FROM v, w')).toEqual([['1', '--']])
  })

  test('restores the same values, and a dump of the result is the same', async () => {
    await using server = await startLocalServer()
    const copy = await server.createDatabase('copy')
    await pipeline(server.url, [{ type: 'sequence', sql: VALUES_SCRIPT }, close])
    const text = await readDump(server.url)
    const loaded = await pipeline(copy.url, [{ type: 'sequence', sql: text }, close])
    expect(codes(loaded)).toEqual(['ok', 'ok'])
    expect(await query(copy.url, SELECT_VALUES)).toEqual(await query(server.url, SELECT_VALUES))
    expect(await readDump(copy.url)).toBe(text)
  })

  test('of an empty database has three lines', async () => {
    await using server = await startLocalServer()
    expect(await readDump(server.url)).toBe('PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCOMMIT;\n')
  })

  test('is a snapshot of the database, however slowly it is read', async () => {
    await using server = await startLocalServer()
    await pipeline(server.url, [
      {
        type: 'sequence',
        sql: `CREATE TABLE a(x); CREATE TABLE z(x);
          WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
          INSERT INTO a SELECT hex(zeroblob(1000)) FROM c`,
      },
      close,
    ])
    const response = await fetch(`${server.url}/dump`)
    await query(server.url, 'INSERT INTO z VALUES (1)')
    const text = await response.text()
    expect(text.match(/^INSERT INTO a /gm)).toHaveLength(3_000)
    expect(text).not.toContain('INSERT INTO z ')
    expect(await readDump(server.url)).toContain('INSERT INTO z ')
  })

  test('needs a token', async () => {
    await using server = await startLocalServer({ auth: true })
    const { url, authToken } = await server.createDatabase('d')
    expect((await fetch(`${url.replace(/\/$/, '')}/dump`)).status).toBe(401)
    const headers = { authorization: `Bearer ${authToken}` }
    expect((await fetch(`${url.replace(/\/$/, '')}/dump`, { headers })).status).toBe(200)
  })

  test('does not block other requests when its reader disconnects', async () => {
    await using server = await startLocalServer()
    await pipeline(server.url, [
      {
        type: 'sequence',
        sql: `CREATE TABLE a(x); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000)
          INSERT INTO a SELECT hex(zeroblob(1000)) FROM c`,
      },
      close,
    ])
    for (let count = 0; count < 5; count += 1) {
      const controller = new AbortController()
      const response = await fetch(`${server.url}/dump`, { signal: controller.signal })
      const reader = (response.body as ReadableStream<Uint8Array>).getReader()
      await reader.read()
      controller.abort()
    }
    await query(server.url, 'INSERT INTO a VALUES (1)')
    expect(await query(server.url, 'SELECT count(*) FROM a')).toEqual([['20001']])
  })
})

test('an export during a dump is a single complete file', async () => {
  const folder = createTemporaryDirectory()
  await using server = await startLocalServer()
  await pipeline(server.url, [
    {
      type: 'sequence',
      sql: `CREATE TABLE a(x); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000)
        INSERT INTO a SELECT hex(zeroblob(1000)) FROM c`,
    },
    close,
  ])
  const response = await fetch(`${server.url}/dump`)
  expect(response.headers.get('content-encoding')).toBe(null)
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  await reader.read()
  await query(server.url, 'INSERT INTO a VALUES (1)')
  await server.exportDatabase('default', join(folder, 'out.db'))
  expect(readdirSync(folder)).toEqual(['out.db'])
  const copy = await server.createDatabase('copy', { fromFile: join(folder, 'out.db') })
  expect(await query(copy.url, 'SELECT count(*) FROM a')).toEqual([['5001']])
  // the dump continues
  let tail = ''
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    tail = (tail + Buffer.from(next.value).toString('latin1')).slice(-20)
  }
  expect(tail).toMatch(/COMMIT;\n$/)
})

describe('a listener', () => {
  test('receives each of 2,000 committed changes once, and no changes that were rolled back', async () => {
    await using server = await startWith('CREATE TABLE t(a)')
    const { promise, resolve } = Promise.withResolvers<void>()
    const events = readEvents(`${server.url}/beta/listen?table=t`, 2_000, resolve)
    await promise
    const write = async (): Promise<void> => {
      for (let batch = 0; batch < 100; batch += 1) {
        const inserts = Array.from({ length: 5 }, () => execute('INSERT INTO t VALUES (1)'))
        await pipeline(server.url, [...inserts, close])
        await pipeline(server.url, [execute('BEGIN'), ...inserts, execute('ROLLBACK'), close])
      }
    }
    await Promise.all([write(), write(), write(), write()])
    const received = await events
    expect(new Set(received)).toEqual(new Set(['event:changes\ndata:{"insert":1}']))
    expect(received).toHaveLength(2_000)
    expect(await query(server.url, 'SELECT count(*) FROM t')).toEqual([['2000']])
  })

  test('receives the changes of a failed statement that are kept', async () => {
    await using server = await startWith('CREATE TABLE t(a UNIQUE)')
    const readIndex = async (): Promise<string | undefined> =>
      /"replication_index":"(\d+)"/.exec((await pipeline(server.url, [execute('SELECT 1'), close])).text)?.[1]
    const before = Number(await readIndex())
    const { promise, resolve } = Promise.withResolvers<void>()
    const events = readEvents(`${server.url}/beta/listen?table=t`, 2, resolve)
    await promise
    const reply = await pipeline(server.url, [
      execute('INSERT INTO t VALUES (1), (2), (1)'),
      execute('INSERT OR FAIL INTO t VALUES (1), (2), (1), (3)'),
      execute('BEGIN'),
      execute('INSERT INTO t VALUES (4)'),
      execute('INSERT OR ROLLBACK INTO t VALUES (5), (4)'),
      close,
    ])
    const constraintError = 'SQLITE_CONSTRAINT'
    expect(codes(reply)).toEqual([constraintError, constraintError, 'ok', 'ok', constraintError, 'ok'])
    expect(Number(await readIndex())).toBe(before + 1)
    await query(server.url, 'DELETE FROM t WHERE a = 2')
    expect(await events).toEqual(['event:changes\ndata:{"insert":2}', 'event:changes\ndata:{"delete":1}'])
  })

  test('continues after its database was closed because it was idle', async () => {
    await using server = await startWith('CREATE TABLE t(a)')
    const { promise, resolve } = Promise.withResolvers<void>()
    const events = readEvents(`${server.url}/beta/listen?table=t`, 1, resolve)
    await promise
    await new Promise((done) => setTimeout(done, 6_000))
    await query(server.url, 'INSERT INTO t VALUES (1)')
    expect(await events).toEqual(['event:changes\ndata:{"insert":1}'])
  })

  test('is closed when the database is removed, and when the server closes', async () => {
    const server = await startLocalServer()
    const { url } = await server.createDatabase('d')
    // resolves as soon as the server has begun to listen
    const listen = (base: string): Promise<Response> =>
      fetch(`${base.replace(/\/$/, '')}/beta/listen?table=t`)
    const removedListener = await listen(url)
    await server.deleteDatabase('d')
    expect(await removedListener.text()).toBe('')
    const closedListener = (await listen(server.url)).text().catch(() => 'cut off')
    await server.close()
    expect(['', 'cut off']).toContain(await closedListener)
  })

  test('needs a token', async () => {
    await using server = await startLocalServer({ auth: true })
    expect((await fetch(`${server.url}/beta/listen?table=t`)).status).toBe(401)
  })
})
