import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { retryTransient, SqldAdmin } from './admin.ts'

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
  await retryTransient(() => admin.create('child', CONFIG, { shared_schema_name: 'parent' }))
  expect(new Set(received)).toEqual(new Set(['POST /v1/namespaces/child/create']))
  expect(received.length).toBeGreaterThan(1)
})
