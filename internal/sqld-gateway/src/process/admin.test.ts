import type { RequestListener } from 'node:http'
import { expect, test, vi } from 'vitest'
import { serveHttp } from '../../../../test/support/serve-http.ts'
import { SqldAdmin } from './admin.ts'

const CONFIG = { allow_attach: false, block_reads: false, block_writes: false }

/** Starts a server with these responses. @returns a client of its admin API */
async function startServer(listener: RequestListener, childTimeoutMs?: number): Promise<SqldAdmin> {
  const { hostname: host, port } = new URL((await serveHttp(listener)).url)
  return new SqldAdmin({ host, port: Number(port) }, 'key', childTimeoutMs)
}

test('a database with a shared schema is created again if the server does not respond', async () => {
  const received: string[] = []
  const admin = await startServer((request, response) => {
    received.push(`${request.method} ${request.url}`)
    if (received.length > 1) response.end()
  }, 200)
  await admin.create('child', CONFIG, { shared_schema_name: 'parent' })
  const [create, remove] = ['POST /v1/namespaces/child/create', 'DELETE /v1/namespaces/child']
  expect(received).toEqual([create, remove, create, remove, create])
})

test('a lookup that the server rejects is not taken for a missing database', async () => {
  let status = 500
  const admin = await startServer((_, response) => response.writeHead(status).end())
  for (const call of [admin.exists('a'), admin.readConfig('a'), admin.stats('a'), admin.remove('a')])
    await expect(call).rejects.toMatchObject({ name: 'SqldAdminError', status: 500 })
  status = 404
  expect(await admin.readConfig('a')).toBeNull()
  await admin.remove('a')
})

test('a change is retried while the server rejects it temporarily, for at most ten seconds', async () => {
  const rejections = ['pending migration', 'database is locked', 'Directory not empty', 'invalid']
  let now = 0
  vi.spyOn(performance, 'now').mockImplementation(() => now)
  const admin = await startServer((_, response) => {
    if (rejections.length === 0) now += 10_001
    response.writeHead(500).end(rejections.shift() ?? 'database is locked')
  })
  await expect(admin.configure('a', CONFIG)).rejects.toThrow('invalid')
  expect(rejections).toEqual([])
  await expect(admin.configure('a', CONFIG)).rejects.toThrow('database is locked')
})

// writers are held back until then
test('a checkpoint ends with the response of the server', async () => {
  const admin = await startServer(({ method }, response) =>
    response.writeHead(method === 'POST' ? 500 : 200).end(),
  )
  await expect(admin.checkpoint('a')).rejects.toMatchObject({ status: 500 })
})
