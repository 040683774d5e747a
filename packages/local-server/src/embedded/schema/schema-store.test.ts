import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { DatabaseId } from '@batonsql/server-common/backend'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../../../test/support/temporary-directory.ts'
import { SchemaStore } from './schema-store.ts'

const idOf = (name: string): DatabaseId => name as DatabaseId

test('a removal is saved: afterwards the database has no role, no jobs, and no tasks in unfinished jobs', async () => {
  const directory = createTemporaryDirectory()
  const store = new SchemaStore(directory)
  await store.addSchema(idOf('parent'))
  await store.addChild(idOf('kid'), idOf('parent'))
  await store.addChild(idOf('kid2'), idOf('parent'))
  await store.addJob(idOf('parent'), '')
  const read = async (): Promise<SchemaStore> => {
    const saved = new SchemaStore(directory)
    await saved.load()
    return saved
  }
  await store.remove(idOf('kid'))
  const withoutChild = await read()
  expect([withoutChild.getRole(idOf('kid')), withoutChild.getChildren(idOf('parent'))]).toEqual([
    'plain',
    ['kid2'],
  ])
  expect(withoutChild.getJobs(idOf('parent'))).toMatchObject([{ tasks: [{ number: 2, database: 'kid2' }] }])
  await store.remove(idOf('parent'))
  const withoutSchema = await read()
  expect([withoutSchema.getRole(idOf('parent')), withoutSchema.unfinished]).toEqual(['plain', []])
  // the number of a removed job is not used again
  await withoutSchema.addSchema(idOf('other'))
  expect((await withoutSchema.addJob(idOf('other'), '')).number).toBe(2)
})

test('a change is acknowledged only when the name of the new file is on disk', async () => {
  const store = new SchemaStore(createTemporaryDirectory())
  const fsync = vi.spyOn(fs, 'fsyncSync').mockImplementation(() => {
    throw Object.assign(new Error('the folder'), { code: 'EIO' })
  })
  syncBuiltinESMExports()
  onTestFinished(() => {
    fsync.mockRestore()
    syncBuiltinESMExports()
  })
  await expect(store.addSchema(idOf('parent'))).rejects.toThrow('the folder')
})
