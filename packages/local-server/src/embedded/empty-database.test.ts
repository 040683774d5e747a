import { readFileSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { ensureDatabaseFile } from './empty-database.ts'

test('a new file is an empty database that any SQLite can open', async () => {
  const file = join(createTemporaryDirectory(), 'data.db')
  await ensureDatabaseFile(file, true)
  using database = new DatabaseSync(file)
  const read = (name: string): unknown => Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0]
  expect(['integrity_check', 'page_count', 'encoding', 'journal_mode', 'schema_version'].map(read)).toEqual([
    'ok',
    1,
    'UTF-8',
    'wal',
    0,
  ])
  database.exec('CREATE TABLE t (a); INSERT INTO t VALUES (1)')
  expect(read('integrity_check')).toBe('ok')
})

test('a file that is not empty is left unchanged, but is synced to disk', async () => {
  const file = join(createTemporaryDirectory(), 'data.db')
  writeFileSync(file, 'something')
  const handle = await open(file)
  await handle.close()
  const sync = vi.spyOn(Object.getPrototypeOf(handle) as typeof handle, 'sync')
  for (const isDurable of [false, true]) {
    await ensureDatabaseFile(file, isDurable)
    expect(sync).toHaveBeenCalledTimes(isDurable ? 1 : 0)
  }
  expect(readFileSync(file, 'utf8')).toBe('something')
})
