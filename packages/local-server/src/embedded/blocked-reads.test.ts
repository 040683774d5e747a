// A database whose settings block reads.

import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { DatabaseId } from '@batonsql/server-common/backend'
import { type ServiceResponse, toResponse } from '@batonsql/server-common/http'
import { expect, test } from 'vitest'
import { serviceRequest } from '../../../../test/server/service-request.ts'
import { close, execute, type WireRequest } from '../../../../test/server/wire.ts'
import { openBackend } from '../../test-support/open-backend.ts'
import type { EmbeddedBackend } from './backend.ts'

const OPEN = {
  sizeLimitBytes: null,
  blockReads: false,
  blockWrites: false,
  blockReason: null,
  allowAttach: true,
  isSchema: false,
  keys: [],
}
const BLOCKED = { ...OPEN, blockReads: true, blockReason: 'unpaid' }
const [ID, COPY] = ['d' as DatabaseId, 'copy' as DatabaseId]

function send(backend: EmbeddedBackend, path: string, body: object | null = null): Promise<ServiceResponse> {
  const { pathname, search } = new URL(path, 'http://x')
  const method = body === null ? 'GET' : 'POST'
  return backend.handle(ID, serviceRequest(body ?? '', { method, path: pathname, query: search }))
}

const run = async (backend: EmbeddedBackend, request: WireRequest): Promise<string> =>
  (await send(backend, '/v3/pipeline', { requests: [request, close] })).body as string

/** Reads a response to its end, which closes the file of an export. */
async function readAll(backend: EmbeddedBackend, path: string): Promise<string> {
  const response = await send(backend, path)
  await toResponse(response).arrayBuffer()
  return response.status === 200 ? 'returned' : 'Operation was blocked'
}

test('blocked reads are rejected on every route, and work again after the block is removed', async () => {
  const { backend } = await openBackend()
  await backend.create(ID, { type: 'empty' }, OPEN)
  await run(backend, execute('create table t(secret)'))
  const listener = await send(backend, '/beta/listen?table=t')
  const events = text(listener.body as Readable)
  const operations: Record<string, () => Promise<string>> = {
    execute: () => run(backend, execute('select secret from t')),
    describe: () => run(backend, { type: 'describe', sql: 'select secret from t' }),
    fork: () => backend.create(COPY, { type: 'fork', from: ID }, OPEN).then(() => 'created', String),
    dump: () => readAll(backend, '/dump'),
    export: () => readAll(backend, '/export/1'),
  }
  await backend.applySettings(ID, BLOCKED)
  await backend.revokeAccess(ID, 'all')
  for (const [name, operation] of Object.entries(operations))
    expect([name, await operation()]).toEqual([name, expect.stringContaining('Operation was blocked')])
  // the change stream has ended, without reporting changes made while reads were blocked
  await run(backend, execute('insert into t values (1)'))
  expect(await events).not.toContain('event:changes')
  await backend.applySettings(ID, OPEN)
  for (const [name, operation] of Object.entries(operations))
    expect([name, await operation()]).not.toEqual([name, expect.stringContaining('blocked')])
})
