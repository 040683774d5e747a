import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { createExport } from './database-exports.ts'

test('a failed copy is reported even if what it has left cannot be removed', async () => {
  const exporting = createExport(join(createTemporaryDirectory(), 'exports'), {
    snapshot: async (path) => {
      // `rm` removes a folder only with an option
      mkdirSync(path)
      throw new Error('the disk is full')
    },
    complete: async () => {},
  })
  await expect(exporting).rejects.toThrow('the disk is full')
})
