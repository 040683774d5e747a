import fs, { statSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { DatabaseFiles, MAIN_FILE } from './database-files.ts'

/** Inodes of the synced files, in order. */
const syncedInodes: number[] = []
const { fsyncSync } = fs

beforeAll(() => {
  fs.fsyncSync = (file) => {
    syncedInodes.push(fs.fstatSync(file).ino)
    fsyncSync(file)
  }
  syncBuiltinESMExports()
})
afterAll(() => {
  fs.fsyncSync = fsyncSync
  syncBuiltinESMExports()
})

function openFiles(isDurable: boolean, head = 'SQLite format 3\0'): { files: DatabaseFiles; path: string } {
  const folder = createTemporaryDirectory()
  const path = join(folder, 'data.db')
  writeFileSync(path, `${head}and the rest`)
  syncedInodes.length = 0
  return { files: new DatabaseFiles(path, isDurable), path }
}

test('syncs the mark before the first change, and syncs nothing without a change', () => {
  const { files, path } = openFiles(true)
  const [main, wal] = [files.open(MAIN_FILE, false), files.open(`${MAIN_FILE}-wal`, true)]
  expect(syncedInodes).toEqual([])
  const [mark, change] = [path, `${path}.wal`].map((name) => statSync(name).ino)
  files.write(wal, Buffer.from('a change'), 0)
  files.sync(wal)
  expect(syncedInodes.slice(0, 2)).toEqual([mark, change])
  syncedInodes.length = 0
  files.sync(wal)
  expect(syncedInodes).toEqual([change])
  files.close(wal)
  files.close(main)
  files.release()
  expect(syncedInodes).toEqual([change])
})

test.skipIf(process.platform === 'win32')(
  'syncs the folder of a new file with the first commit, whichever descriptor wrote it, and once',
  () => {
    const { files, path } = openFiles(true)
    const main = files.open(MAIN_FILE, false)
    const [creator, writer] = [0, 1].map(() => files.open(`${MAIN_FILE}-wal`, true)) as [number, number]
    const folders = [dirname(path), dirname(dirname(path))].map((name) => statSync(name).ino)
    files.sync(writer)
    expect(syncedInodes.slice(2)).toEqual(folders)
    for (const descriptor of [creator, writer, main]) files.sync(descriptor)
    expect(syncedInodes).toHaveLength(2 + folders.length + 3)
    // the descriptor that created a file may be closed before another one commits
    for (const descriptor of [creator, writer]) files.close(descriptor)
    files.delete(`${MAIN_FILE}-wal`)
    files.close(files.open(`${MAIN_FILE}-wal`, true))
    syncedInodes.length = 0
    const next = files.open(`${MAIN_FILE}-wal`, true)
    files.sync(next)
    expect(syncedInodes.slice(1)).toEqual(folders)
    for (const descriptor of [next, main]) files.close(descriptor)
    files.release()
  },
)

test('a temporary database never waits for the disk', () => {
  const { files } = openFiles(false)
  const wal = files.open(`${MAIN_FILE}-wal`, true)
  files.write(wal, Buffer.from('a change'), 0)
  files.sync(wal)
  files.close(wal)
  files.release()
  expect(syncedInodes).toEqual([])
})

test('syncs a mark and names of files that a killed process has left, which may not be on disk', () => {
  const { files, path } = openFiles(true, 'in use by Baton\0')
  writeFileSync(`${path}.wal`, 'a change')
  const [main, wal] = [files.open(MAIN_FILE, false), files.open(`${MAIN_FILE}-wal`, true)]
  files.write(wal, Buffer.from('a change'), 0)
  files.sync(wal)
  const synced = [path, `${path}.wal`, ...(process.platform === 'win32' ? [] : [dirname(path)])]
  expect(syncedInodes.slice(0, 3)).toEqual(synced.map((name) => statSync(name).ino))
  files.close(wal)
  files.close(main)
  files.release()
})
