import fs, { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { DatabaseFiles, MAIN_FILE } from './database-files.ts'

function temporaryFile(): string {
  const folder = createTemporaryDirectory()
  return join(folder, 'data.db')
}

const PAGE = Buffer.concat([Buffer.from('SQLite format 3\0'), Buffer.from('the rest')])

test('marks a database while it is in use, without affecting the engine', () => {
  const path = temporaryFile()
  writeFileSync(path, PAGE)
  const files = new DatabaseFiles(path)
  expect(readFileSync(path, 'latin1')).toBe('in use by Baton\0the rest')
  const descriptor = files.open(MAIN_FILE, false)
  const read = Buffer.alloc(PAGE.length)
  expect(files.read(descriptor, read, 0)).toBe(PAGE.length)
  expect(read).toEqual(PAGE)
  expect(files.write(descriptor, Buffer.concat([PAGE, PAGE]), 0)).toBe(0)
  expect(readFileSync(path, 'latin1')).toMatch(/^in use by Baton\0the restSQLite format 3/)
  files.close(descriptor)
  files.release()
  expect(readFileSync(path)).toEqual(Buffer.concat([PAGE, PAGE]))
})

test('marks a new database when its first page is written; a mark left by a crash is harmless', () => {
  const path = temporaryFile()
  const crashed = new DatabaseFiles(path)
  crashed.write(crashed.open(MAIN_FILE, true), PAGE, 0)
  const files = new DatabaseFiles(path)
  const read = Buffer.alloc(PAGE.length)
  files.read(files.open(MAIN_FILE, false), read, 0)
  expect(read).toEqual(PAGE)
  files.release()
  expect(readFileSync(path)).toEqual(PAGE)
})

test('refuses to open any other file', () => {
  const path = temporaryFile()
  writeFileSync(`${path}-other`, 'secret')
  expect(new DatabaseFiles(null).open(MAIN_FILE, true)).toBe(-1)
  const files = new DatabaseFiles(path)
  for (const name of [
    path,
    `${path}-other`,
    '/etc/passwd',
    '../data.db',
    `${MAIN_FILE}-other`,
    '',
    'main.db',
  ]) {
    expect([name, files.open(name, true), files.exists(name), files.delete(name)]).toEqual([
      name,
      -1,
      false,
      1,
    ])
  }
  expect(readFileSync(`${path}-other`, 'utf8')).toBe('secret')
})

test('leaves a file that is not a database unchanged', () => {
  const path = temporaryFile()
  writeFileSync(path, 'something else entirely')
  const files = new DatabaseFiles(path)
  files.release()
  expect(readFileSync(path, 'utf8')).toBe('something else entirely')
})

test('a WAL that could not be checkpointed can be read by other programs and by the next server', () => {
  const path = temporaryFile()
  writeFileSync(path, PAGE)
  const first = new DatabaseFiles(path)
  writeFileSync(`${path}.wal`, 'committed')
  first.release()
  expect([readFileSync(path), readFileSync(`${path}-wal`, 'utf8')]).toEqual([PAGE, 'committed'])
})

test('uses a WAL that was about to be renamed when the process ended', () => {
  const path = temporaryFile()
  writeFileSync(path, Buffer.concat([Buffer.from('in use by Baton\0'), Buffer.from('the rest')]))
  writeFileSync(`${path}-wal`, 'committed')
  expect(new DatabaseFiles(path).exists(`${MAIN_FILE}-wal`)).toBe(true)
  expect(readFileSync(`${path}.wal`, 'utf8')).toBe('committed')
})

/** Makes every call of `openSync` fail until the returned function is called. */
function failToOpen(code: string): () => void {
  const { openSync } = fs
  const restore = (): void => {
    fs.openSync = openSync
    syncBuiltinESMExports()
  }
  fs.openSync = () => {
    throw Object.assign(new Error('/a/path'), { code })
  }
  syncBuiltinESMExports()
  onTestFinished(restore)
  return restore
}

test.skipIf(process.platform === 'win32')(
  'if the folder of a new file cannot be synchronized, the next attempt synchronizes it',
  () => {
    const path = temporaryFile()
    const files = new DatabaseFiles(path)
    const descriptor = files.open(MAIN_FILE, true)
    files.write(descriptor, PAGE, 0)
    const restore = failToOpen('EIO')
    expect(files.sync(descriptor)).toBe(1)
    expect(files.sync(descriptor)).toBe(1)
    restore()
    expect(files.sync(descriptor)).toBe(0)
    files.close(descriptor)
    files.release()
  },
)

test.each(['EMFILE', 'EACCES', 'EIO'])(
  'a file that cannot be opened does not count as missing: %s',
  (code) => {
    const path = temporaryFile()
    writeFileSync(path, PAGE)
    const message = `the database file cannot be opened: ${code}`
    const restoreBefore = failToOpen(code)
    expect(() => new DatabaseFiles(path)).toThrow(message)
    restoreBefore()
    const files = new DatabaseFiles(path)
    const copy = `${path}-copy`
    const restoreAfter = failToOpen(code)
    expect(() => files.copyTo(copy)).toThrow(message)
    expect(() => files.release()).toThrow(message)
    restoreAfter()
    files.release()
    expect(readFileSync(path)).toEqual(PAGE)
  },
)

test.skipIf(process.platform === 'win32')('a file that cannot be locked is not marked', () => {
  const path = temporaryFile()
  writeFileSync(path, '')
  const database = new DatabaseSync(path)
  database.exec('create table t(a)')
  database.close()
  const content = readFileSync(path)
  // SQLite cannot open a folder as a journal
  mkdirSync(`${path}-journal`)
  expect(() => new DatabaseFiles(path)).toThrow()
  expect(readFileSync(path)).toEqual(content)
})
