import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { DatabaseFiles } from './database-files.ts'

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

test('the copies of attached databases that a killed process left are removed', async () => {
  const folder = temporaryFolder()
  const copies: string[] = []
  const killed = new DatabaseFiles(join(folder, 'data.db'))
  await killed.attach(async (path) => {
    new DatabaseFiles(join(folder, 'other.db')).copyTo(path)
    copies.push(path)
  })
  expect(copies.map((path) => existsSync(path))).toEqual([true])
  const next = new DatabaseFiles(join(folder, 'data.db'))
  next.release()
  expect(copies.map((path) => existsSync(path))).toEqual([false])
})

test.runIf(process.platform === 'linux')('marking a file and removing its mark leave it closed', () => {
  const path = join(temporaryFolder(), 'data.db')
  writeFileSync(path, 'SQLite format 3\0')
  const openFiles = readdirSync('/proc/self/fd').length
  new DatabaseFiles(path).release()
  expect(readdirSync('/proc/self/fd')).toHaveLength(openFiles)
})
