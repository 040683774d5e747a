import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createHandler } from '@batonsql/local-server'
import { expect, test } from 'vitest'
import { ENDLESS_READ } from '../support/fixtures.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { close, execute, pipeline, query } from './wire.ts'

test('responds without a socket', async () => {
  await using handler = createHandler()
  const { fetch } = handler
  const url = 'http://localhost'
  await query(url, 'CREATE TABLE t(a)', { fetch })
  const transaction = await pipeline(url, [execute('BEGIN'), execute('INSERT INTO t VALUES (1)')], { fetch })
  expect((await pipeline(url, [execute('COMMIT'), close], { fetch, baton: transaction.baton })).status).toBe(
    200,
  )
  expect(await query(url, 'SELECT a FROM t', { fetch })).toEqual([['1']])

  const { url: app } = await handler.createDatabase('app')
  expect(await query(app, 'SELECT count(*) FROM sqlite_schema', { fetch })).toEqual([['0']])
  expect((await pipeline('http://nobody.localhost', [close], { fetch })).status).toBe(404)
  const version = await handler.fetch(new Request('http://localhost/version'))
  expect(await version.text()).toMatch(/^baton-local \S+ \(libSQL, SQLite 3\.\S+\)$/)
})

test('streams a cursor', async () => {
  await using handler = createHandler()
  const sql = 'SELECT value, hex(zeroblob(500)) FROM generate_series(1, 5000)'
  const response = await handler.fetch(
    new Request('http://localhost/v3/cursor', {
      method: 'POST',
      body: JSON.stringify({ batch: { steps: [{ stmt: { sql } }] } }),
    }),
  )
  const lines = (await response.text()).trimEnd().split('\n')
  expect(JSON.parse(lines[0] as string)).toMatchObject({
    baton: expect.stringMatching(/^.{64}$/) as unknown,
    base_url: null,
  })
  expect(lines).toHaveLength(1 + 1 + 5_000 + 1 + 1)
  expect(JSON.parse(lines.at(-1) as string)).toHaveProperty('type', 'replication_index')
})

test('aborted responses leave nothing behind', async () => {
  await using handler = createHandler()
  const { fetch } = handler
  const base = 'http://localhost'
  const insertRows = `WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
    INSERT INTO big SELECT hex(zeroblob(1000)) FROM c`
  await pipeline(base, [execute('CREATE TABLE big(x)'), execute(insertRows), close], { fetch })
  const body = JSON.stringify({ batch: { steps: [{ stmt: { sql: 'SELECT x FROM big' } }] } })
  // few cursors, because the baton of each is valid for ten seconds, but more dumps than the maximum number of streams
  const kinds = [
    { path: '/v3/cursor', init: { method: 'POST', body }, count: 20 },
    { path: '/dump', init: {}, count: 100 },
    { path: '/dump', init: { method: 'HEAD' }, count: 100 },
    { path: '/beta/listen?table=big', init: {}, count: 20 },
    { path: '/beta/listen?table=big', init: { method: 'HEAD' }, count: 20 },
  ]
  for (const { path, init, count } of kinds) {
    for (let round = 0; round < count; round += 1) {
      const response = await fetch(`${base}${path}`, init)
      expect(response.status).toBe(200)
      await response.body?.cancel()
    }
  }
  await pipeline(base, [execute('DELETE FROM big'), close], { fetch })
  expect(await query(base, 'SELECT count(*) FROM big', { fetch })).toEqual([['0']])
})

test('an aborted signal ends a change stream with an error', async () => {
  await using handler = createHandler()
  await query('http://localhost', 'CREATE TABLE t(a)', { fetch: handler.fetch })
  const controller = new AbortController()
  const response = await handler.fetch('http://localhost/beta/listen?table=t', { signal: controller.signal })
  const rejection = expect(response.text()).rejects.toThrow('Premature close')
  controller.abort()
  // closing the handler would end the stream without an error
  await handler.close()
  await rejection
})

test('a change stream whose signal was aborted before the request leaves nothing behind', async () => {
  await using handler = createHandler()
  await query('http://localhost', 'CREATE TABLE t(a)', { fetch: handler.fetch })
  const response = await handler.fetch('http://localhost/beta/listen?table=t', {
    signal: AbortSignal.abort(),
  })
  await expect(response.text()).rejects.toThrow('Premature close')
})

test('an aborted signal ends a change stream even after garbage collection', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  await using handler = createHandler()
  await query('http://localhost', 'CREATE TABLE t(a)', { fetch: handler.fetch })
  const controller = new AbortController()
  const { signal } = controller
  const response = await handler.fetch(new Request('http://localhost/beta/listen?table=t', { signal }))
  const rejection = expect(response.text()).rejects.toThrow('Premature close')
  const unused = new WeakRef(new Request('http://localhost', { signal }))
  for (let round = 0; round < 5; round += 1) {
    await nextTurn()
    collectGarbage()
  }
  expect(unused.deref()).toBeUndefined()
  controller.abort()
  await handler.close()
  await rejection
})

test('closing aborts requests in flight, and does not report that the engine could not be started', async () => {
  const handler = createHandler()
  const call = pipeline('http://localhost', [execute(ENDLESS_READ)], { fetch: handler.fetch })
  await handler.close()
  expect((await call).status).toBe(502)
  await expect(handler.fetch('http://localhost/version')).rejects.toThrow('the handler is closed')

  const path = join(createTemporaryDirectory(), 'data')
  writeFileSync(path, '')
  const failing = createHandler({ dataDirectory: path })
  const start = expect(failing.fetch('http://localhost/version')).rejects.toThrow(path)
  await failing.close()
  await start
})

test('a call after a failed start starts the engine again', async () => {
  const path = join(createTemporaryDirectory(), 'data')
  writeFileSync(path, '')
  await using handler = createHandler({ dataDirectory: path })
  await expect(handler.fetch('http://localhost/version')).rejects.toThrow(path)
  rmSync(path)
  expect((await handler.fetch('http://localhost/version')).status).toBe(200)
})

test('rejects unknown options', () => {
  expect(() => createHandler({ port: 1 } as object)).toThrow('unknown option port')
})

test('rejects every call after close()', async () => {
  const handler = createHandler()
  await handler.createDatabase('app')
  await handler.close()
  await expect(handler.createDatabase('late')).rejects.toThrow('the handler is closed')
  await expect(handler.fetch('http://localhost/version')).rejects.toThrow('the handler is closed')
})
