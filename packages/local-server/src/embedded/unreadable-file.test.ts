// A database whose file cannot be opened.

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { type DatabaseId, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { EmbeddedBackend } from './backend.ts'

const ID = 'd' as DatabaseId

async function send(backend: EmbeddedBackend, sql: string): Promise<{ status: number; body: string }> {
  const requests = [{ type: 'execute', stmt: { sql } }, { type: 'close' }]
  const { status, body } = await backend.handle(ID, {
    method: 'POST',
    path: '/v3/pipeline',
    query: '',
    headers: {},
    body: Readable.from([Buffer.from(JSON.stringify({ baton: null, requests }))]),
    controller: new AbortController(),
    remoteAddress: undefined,
  })
  return { status, body: body as string }
}

test('requests are rejected without starting new workers, and succeed when the file can be opened again', async () => {
  const directory = createTemporaryDirectory()
  const backend = new EmbeddedBackend({ directory, isOpen: true, isDurable: false })
  await backend.start()
  onTestFinished(() => backend[Symbol.asyncDispose]())
  await backend.create(ID, { type: 'empty' }, DEFAULT_SETTINGS)
  const file = join(directory, ID, 'data.db')
  const movedFile = `${file}-aside`
  renameSync(file, movedFile)
  mkdirSync(file)
  let workersStarted = 0
  const count = (): void => {
    workersStarted += 1
  }
  subscribe('worker_threads', count)
  onTestFinished(() => {
    unsubscribe('worker_threads', count)
  })
  const rejected = [
    ...(await Promise.all(Array.from({ length: 10 }, () => send(backend, 'select 1')))),
    await send(backend, 'select 1'),
  ]
  for (const { status, body } of rejected) {
    expect([status, body]).toEqual([500, expect.stringContaining('the database file cannot be opened')])
  }
  // a spare worker is kept for the next database
  expect(workersStarted).toBeLessThanOrEqual(1)
  rmSync(file, { recursive: true })
  renameSync(movedFile, file)
  expect((await send(backend, 'create table t(a)')).status).toBe(200)
})
