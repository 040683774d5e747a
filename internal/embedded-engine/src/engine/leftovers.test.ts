import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { DatabaseFiles } from './database-files.ts'

test('the copies of attached databases that a killed process left are removed', async () => {
  const folder = createTemporaryDirectory()
  const copies: string[] = []
  const killed = new DatabaseFiles(join(folder, 'data.db'))
  await killed.attach(async (path) => {
    const other = join(folder, 'other.db')
    writeFileSync(other, '')
    new DatabaseFiles(other).copyTo(path)
    copies.push(path)
  })
  expect(copies.map((path) => existsSync(path))).toEqual([true])
  const next = new DatabaseFiles(join(folder, 'data.db'))
  next.release()
  expect(copies.map((path) => existsSync(path))).toEqual([false])
})

test.runIf(process.platform === 'linux')('marking a file and removing its mark leave it closed', () => {
  const path = join(createTemporaryDirectory(), 'data.db')
  writeFileSync(path, 'SQLite format 3\0')
  const openFiles = readdirSync('/proc/self/fd').length
  new DatabaseFiles(path).release()
  expect(readdirSync('/proc/self/fd')).toHaveLength(openFiles)
})
