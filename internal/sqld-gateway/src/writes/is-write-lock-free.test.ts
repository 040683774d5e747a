import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { isWriteLockFree } from './is-write-lock-free.ts'

test('reports whether another connection holds the write lock', async () => {
  const directory = createTemporaryDirectory()
  const file = join(directory, 'data')
  expect(isWriteLockFree(file)).toBe(null)
  expect(existsSync(file)).toBe(false)
  const database = new DatabaseSync(file)
  database.exec('PRAGMA journal_mode = WAL; CREATE TABLE t(a)')
  expect(isWriteLockFree(file)).toBe(true)
  database.exec('BEGIN; SELECT * FROM t')
  expect(isWriteLockFree(file)).toBe(true)
  database.exec('INSERT INTO t VALUES (1)')
  expect(isWriteLockFree(file)).toBe(false)
  database.exec('ROLLBACK')
  expect(isWriteLockFree(file)).toBe(true)
  database.close()
})
