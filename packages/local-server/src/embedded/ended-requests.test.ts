// Calls that end the requests of a database resolve once the requests in flight have ended.

import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type DatabaseId, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'
import { expect, onTestFinished, test } from 'vitest'
import { EmbeddedBackend } from './backend.ts'

const [APP, OTHER] = ['app' as DatabaseId, 'other' as DatabaseId]
const ENDLESS_READ = 'with recursive c(i) as (select 1 union all select i + 1 from c) select count(*) from c'

async function openBackend(): Promise<EmbeddedBackend> {
  const directory = mkdtempSync(join(tmpdir(), 'baton-test-'))
  const backend = new EmbeddedBackend({ directory, isOpen: true, isDurable: false })
  await backend.start()
  await backend.create(APP, { type: 'empty' }, DEFAULT_SETTINGS)
  await backend.create(OTHER, { type: 'empty' }, { ...DEFAULT_SETTINGS, allowAttach: true })
  onTestFinished(async () => {
    await backend[Symbol.asyncDispose]()
    rmSync(directory, { recursive: true, force: true })
  })
  return backend
}

/** Sends a statement, and resolves once it has been received. */
async function send(backend: EmbeddedBackend, sql: string, baton: string | null = null) {
  const requests = [{ type: 'execute', stmt: { sql } }]
  const body = Readable.from([Buffer.from(JSON.stringify({ baton, requests }))])
  const response = backend.handle(APP, {
    method: 'POST',
    path: '/v3/pipeline',
    query: '',
    headers: {},
    body,
    controller: new AbortController(),
    remoteAddress: undefined,
  })
  let hasEnded = false
  const end = response.finally(() => {
    hasEnded = true
  })
  await once(body, 'close')
  await nextTurn()
  return {
    end,
    /** Whether the request has ended. */
    async hasEnded(): Promise<boolean> {
      await nextTurn() // the promise of the response is settled a moment later
      return hasEnded
    },
  }
}

const batonOf = async ({ end }: Awaited<ReturnType<typeof send>>): Promise<string> =>
  (JSON.parse((await end).body as string) as { baton: string }).baton

test('revoking access: a write that waits for the write lock', async () => {
  const backend = await openBackend()
  await (await send(backend, 'create table t(a)')).end
  await (await send(backend, 'begin immediate')).end
  const write = await send(backend, 'insert into t values (1)')
  expect(await write.hasEnded()).toBe(false)
  await backend.revokeAccess(APP, 'all')
  expect(await write.hasEnded()).toBe(true)
})

test('stopping the server: an endless read', async () => {
  const backend = await openBackend()
  const read = await send(backend, ENDLESS_READ)
  expect(await read.hasEnded()).toBe(false)
  await backend.endRequests()
  expect(await read.hasEnded()).toBe(true)
})

test.each([
  [
    'forbidding to attach a database',
    (backend: EmbeddedBackend) => backend.applySettings(OTHER, DEFAULT_SETTINGS),
  ],
  ['removing a database', (backend: EmbeddedBackend) => backend.remove(OTHER)],
])('%s: a request of another database that has attached it', async (_, change) => {
  const backend = await openBackend()
  const baton = await batonOf(await send(backend, 'attach other as x'))
  const read = await send(backend, ENDLESS_READ, baton)
  expect(await read.hasEnded()).toBe(false)
  await change(backend)
  expect(await read.hasEnded()).toBe(true)
})
