import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { DatabaseId } from '@batonsql/server-common/backend'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { DatabaseExports } from './database-exports.ts'
import type { WorkerPool } from './worker-pool.ts'

test('a failed copy is reported even if what it has left cannot be removed', async () => {
  const databaseExports = new DatabaseExports({
    directory: join(createTemporaryDirectory(), 'exports'),
    workers: {} as WorkerPool,
    snapshot: async (_, path) => {
      // `rm` removes a folder only with an option
      mkdirSync(path)
      throw new Error('the disk is full')
    },
  })
  const { signal } = new AbortController()
  await expect(databaseExports.create('d' as DatabaseId, signal)).rejects.toThrow('the disk is full')
})
