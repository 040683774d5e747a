import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { SqldAdmin } from './admin.ts'

const CONFIG = { allow_attach: false, block_reads: false, block_writes: false }

test('a database with a shared schema is created again if the server does not respond', async () => {
  const received: string[] = []
  const server = createServer((request, response) => {
    received.push(`${request.method} ${request.url}`)
    if (received.length > 1) response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const admin = new SqldAdmin({ host: '127.0.0.1', port }, 'key', 200)
  await admin.create('child', CONFIG, { shared_schema_name: 'parent' })
  const [create, remove] = ['POST /v1/namespaces/child/create', 'DELETE /v1/namespaces/child']
  expect(received).toEqual([create, remove, create, remove, create])
})

test('a lookup that the server rejects is not taken for a missing database', async () => {
  let status = 500
  const server = createServer((_, response) => response.writeHead(status).end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const admin = new SqldAdmin({ host: '127.0.0.1', port: (server.address() as AddressInfo).port }, 'key')
  for (const call of [admin.exists('a'), admin.blocksReads('a'), admin.stats('a'), admin.remove('a')])
    await expect(call).rejects.toMatchObject({ name: 'SqldAdminError', status: 500 })
  status = 404
  expect(await admin.blocksReads('a')).toBe(false)
  await admin.remove('a')
})
