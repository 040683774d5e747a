import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { getFileSize, hasDatabaseFile } from './database-file.ts'

test('a file that cannot be examined does not count as missing', () => {
  const folder = createTemporaryDirectory()
  writeFileSync(join(folder, 'file'), 'text')
  symlinkSync('loop', join(folder, 'loop'))
  expect(getFileSize(join(folder, 'file'))).toBe(4)
  for (const name of ['missing', 'missing/file', 'file/file'])
    expect(hasDatabaseFile(join(folder, name))).toBe(false)
  expect(() => hasDatabaseFile(join(folder, 'loop'))).toThrow('ELOOP')
})
