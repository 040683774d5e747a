import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { loadEngineModule } from '../engine-module.ts'
import { SharedCallState } from '../protocol/shared-call-state.ts'
import { DatabaseFiles, MAIN_FILE } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import { ErasableInstance } from './erasable-instance.ts'
import { SqliteConnection } from './sqlite-connection.ts'

test('reports the first call that throws, before its changes can be committed', async () => {
  const folder = createTemporaryDirectory()
  const files = new DatabaseFiles(join(folder, 'data.db'))
  onTestFinished(() => files.closeAll())
  const failures: unknown[] = []
  const engine = new EngineInstance(new ErasableInstance(await loadEngineModule()), {
    files,
    state: new SharedCallState(),
    fail: (error) => {
      failures.push(error)
      throw new Error('the thread has ended')
    },
  })
  const connection = new SqliteConnection(engine, { name: 'd', file: MAIN_FILE })
  connection.run('PRAGMA journal_mode = WAL')
  connection.run('CREATE TABLE t(a)')
  const before = readFileSync(join(folder, 'data.db.wal'))
  const statement = connection.prepare('INSERT INTO t VALUES (1), (2), (3) RETURNING a', { write: true })
  // an error thrown by a host function leaves the engine in the same state as a trap
  const trap = new WebAssembly.RuntimeError('unreachable')
  connection.watch({
    onChange: () => {
      throw trap
    },
    onSavepointEnd: () => {},
    onCommit: () => {},
  })
  expect(() => statement?.discardRows()).toThrow('the thread has ended')
  expect(failures).toEqual([trap])
  expect(readFileSync(join(folder, 'data.db.wal')).equals(before)).toBe(true)
})
