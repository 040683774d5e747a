import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type DatabaseId, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'
import { FULL_PERMISSIONS } from '@batonsql/server-common/hrana'
import { expect, onTestFinished, test } from 'vitest'
import { DatabaseWorker, NotBegunError } from './database-worker.ts'
import { loadEngineModule } from './engine-module.ts'

test('a worker ignores messages about a database that is being released', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const exits: string[] = []
  const worker = new DatabaseWorker(await loadEngineModule(), {
    onClosed: ({ hasExited }) => hasExited && exits.push('exit'),
    onChanges() {},
    onRequest: async () => null,
    onUsage() {},
  })
  await worker.ready
  const [first, second] = ['d', 'e'] as DatabaseId[] as [DatabaseId, DatabaseId]
  const open = (id: DatabaseId): void =>
    worker.open({
      id,
      path: join(folder, `${id}.db`),
      settings: DEFAULT_SETTINGS,
      role: 'plain',
      lastIndex: null,
      dialect: null,
      isDurable: false,
    })
  const close = (id: DatabaseId) => {
    const call = { id, stream: 2, permissions: FULL_PERMISSIONS, signal: new AbortController().signal }
    return worker.run(call, { type: 'pipeline', requests: [{ type: 'close' }], version: 3 })
  }
  open(first)
  const released = worker.release({ keep: true })
  worker.closeStream(1)
  worker.watch(true)
  worker.applySettings(DEFAULT_SETTINGS)
  await released
  // the worker can open another database, and then serves only that one
  open(second)
  await expect(close(first)).rejects.toThrow(NotBegunError)
  expect(await close(second)).toMatchObject({ type: 'results', isClosed: true })
  expect(exits).toEqual([])
  await worker.shutDown()
  expect(exits).toEqual(['exit'])
})
