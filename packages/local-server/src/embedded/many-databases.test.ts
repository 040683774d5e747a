// More databases than can be open at once.

import { type DatabaseId, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'
import { expect, test, vi } from 'vitest'
import { serviceRequest } from '../../../../test/server/service-request.ts'
import { close, execute, type WireRequest } from '../../../../test/server/wire.ts'
import { openBackend } from '../../test-support/open-backend.ts'
import type { EmbeddedBackend } from './backend.ts'

const DATABASES = Array.from({ length: 18 }, (_, index) => `d${index}` as DatabaseId)
/** How long a stream stays open without a request, and the longest delay of a timer. */
const STREAM_EXPIRY_MS = 10_000
const NEVER_MS = 2 ** 31 - 1

async function openDatabases(): Promise<EmbeddedBackend> {
  // no stream expires, however long the threads take to start
  const { setTimeout } = globalThis
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((callback: () => void, ms: number) =>
    setTimeout(callback, ms < STREAM_EXPIRY_MS ? ms : NEVER_MS)) as typeof setTimeout)
  const { backend } = await openBackend({ isDurable: true })
  for (const id of DATABASES) await backend.create(id, { type: 'empty' }, DEFAULT_SETTINGS)
  return backend
}

async function send(
  backend: EmbeddedBackend,
  id: DatabaseId,
  requests: readonly WireRequest[],
  baton: string | null = null,
): Promise<{ readonly baton: string | null; readonly results: readonly { readonly type: string }[] }> {
  const { body } = await backend.handle(id, serviceRequest({ baton, requests }))
  return JSON.parse(body as string) as Awaited<ReturnType<typeof send>>
}

test('every database responds repeatedly, and keeps its data', async () => {
  const backend = await openDatabases()
  const runEverywhere = async (sql: string): Promise<string[]> =>
    await Promise.all(
      DATABASES.map(async (id) => JSON.stringify(await send(backend, id, [execute(sql), close]))),
    )
  await runEverywhere('CREATE TABLE t (a)')
  for (let count = 1; count <= 2; count += 1) await runEverywhere('INSERT INTO t VALUES (1)')
  for (const response of await runEverywhere('SELECT count(*) FROM t'))
    expect(response).toContain('"value":"2"')
})

test('open transactions keep their databases open, and do not block other databases', async () => {
  const backend = await openDatabases()
  const databases = DATABASES.slice(0, -1)
  const transactions = await Promise.all(
    databases.map((id) => send(backend, id, [execute('BEGIN IMMEDIATE')])),
  )
  const lastDatabase = DATABASES.at(-1) as DatabaseId
  expect((await send(backend, lastDatabase, [execute('SELECT 1'), close])).results[0]?.type).toBe('ok')
  for (const [index, { baton }] of transactions.entries()) {
    const commit = await send(backend, databases[index] as DatabaseId, [execute('COMMIT'), close], baton)
    expect(commit.results.map(({ type }) => type)).toEqual(['ok', 'ok'])
  }
})

test('a request that waits for a worker is rejected when the server closes', async () => {
  const backend = await openDatabases()
  const pending = Promise.allSettled(DATABASES.map((id) => send(backend, id, [execute('SELECT 1'), close])))
  await backend[Symbol.asyncDispose]()
  expect((await pending).filter(({ status }) => status === 'rejected')).not.toEqual([])
})
