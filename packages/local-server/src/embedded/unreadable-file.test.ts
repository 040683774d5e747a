// Databases whose files cannot be opened, copied or written.

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { mkdirSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DatabaseId, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'
import { expect, onTestFinished, test } from 'vitest'
import { serviceRequest } from '../../../../test/server/service-request.ts'
import { close, execute } from '../../../../test/server/wire.ts'
import { openBackend } from '../../test-support/open-backend.ts'
import type { EmbeddedBackend } from './backend.ts'

const ID = 'd' as DatabaseId

async function send(backend: EmbeddedBackend, sql: string): Promise<{ status: number; body: string }> {
  const { status, body } = await backend.handle(ID, serviceRequest({ requests: [execute(sql), close] }))
  return { status, body: body as string }
}

test('requests are rejected without starting new workers, and succeed when the file can be opened again', async () => {
  const { backend, directory } = await openBackend()
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

test('a database whose file was removed while it was open is not copied as an empty one', async () => {
  const { backend, directory } = await openBackend()
  await backend.create(ID, { type: 'empty' }, DEFAULT_SETTINGS)
  expect((await send(backend, 'create table t(a)')).status).toBe(200)
  rmSync(join(directory, ID, 'data.db'))
  const copying = backend.create('copy' as DatabaseId, { type: 'fork', from: ID }, DEFAULT_SETTINGS)
  await expect(copying).rejects.toThrow('the file of this database is missing or empty')
  await expect(backend.exportTo(ID, join(directory, 'export.db'))).rejects.toThrow('missing or empty')
})

test('a copy for ATTACH that fails is an internal error with its reason, not a missing permission', async () => {
  const { backend, directory } = await openBackend()
  await backend.create(ID, { type: 'empty' }, DEFAULT_SETTINGS)
  const settings = { ...DEFAULT_SETTINGS, allowAttach: true }
  await backend.create('other' as DatabaseId, { type: 'empty' }, settings)
  await send(backend, 'select 1')
  const folder = join(directory, ID, 'attached')
  mkdirSync(folder)
  writeFileSync(join(folder, '1.db'), '')
  const failed = await send(backend, 'attach "other" as o')
  expect(failed).toEqual({ status: 500, body: expect.stringMatching(/Internal Error.*EEXIST/) })
  // what was written cannot be removed either
  rmSync(folder, { recursive: true })
  writeFileSync(folder, '')
  const failedAgain = await send(backend, 'attach "other" as o')
  expect(failedAgain).toEqual({ status: 500, body: expect.stringMatching(/Internal Error.*mkdir/) })
  rmSync(folder)
  expect((await send(backend, 'attach "other" as o')).status).toBe(200)
  await backend.applySettings('other' as DatabaseId, DEFAULT_SETTINGS)
  const rejected = await send(backend, 'attach "other" as o')
  expect(rejected).toEqual({ status: 403, body: expect.stringContaining("doesn't allow attach") })
})

test('an internal error of a migration is not shown as an error of its statements', async () => {
  const { backend, directory } = await openBackend()
  await backend.create(ID, { type: 'schema' }, DEFAULT_SETTINGS)
  await send(backend, 'create table t(a)')
  // the file that will replace the record of migrations cannot be written
  const folder = join(directory, 'shared-schemas.json.new')
  mkdirSync(folder)
  const failed = await send(backend, 'create table u(a)')
  expect(failed).toEqual({ status: 500, body: expect.stringMatching(/Internal Error.*EISDIR/) })
  rmdirSync(folder)
  expect((await send(backend, 'create table u(a)')).status).toBe(200)
})
