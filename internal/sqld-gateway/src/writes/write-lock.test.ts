import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { isWriteLockFree } from './write-lock.ts'

test('reports whether another connection holds the write lock', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rm(directory, { recursive: true }))
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
