import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { loadEngineModule } from '../engine-module.ts'
import { SharedCallState } from '../protocol/shared-call-state.ts'
import { DatabaseFiles, MAIN_FILE } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import { ErasableInstance } from './erasable-instance.ts'
import { SqliteConnection } from './sqlite-connection.ts'

// Faults of SQLite 3.45.1 that later versions fixed, and that the build of the engine fixes too.

const module = await loadEngineModule()

function createEngine(): EngineInstance {
  const folder = createTemporaryDirectory()
  const files = new DatabaseFiles(join(folder, 'data.db'))
  onTestFinished(() => files.closeAll())
  return new EngineInstance(new ErasableInstance(module), { files, state: new SharedCallState() })
}

// The checkpoint has read the header of the log, and continues although another connection has since restarted the log: it records
// frames as copied that it has not copied. In the engine nothing can run between the two, because all connections of a database are
// in one thread, and no call of the file system calls the engine. Here, one does.
test('a checkpoint during which the log is restarted copies nothing, and no commit is lost', () => {
  const engine = createEngine()
  const open = (): SqliteConnection => {
    const connection = new SqliteConnection(engine, { name: 'd', file: MAIN_FILE })
    connection.run('PRAGMA wal_autocheckpoint = 0')
    return connection
  }
  const [writer, first, second] = [open(), open(), open()] as const
  writer.run('PRAGMA journal_mode = WAL')
  writer.run('CREATE TABLE t (a)')
  for (let row = 0; row < 20; row++) writer.run(`INSERT INTO t VALUES (randomblob(20000))`)
  // compiled now, it has an old header, so that it calls the file system when it reads the new one
  const checkpoint = second.prepare('PRAGMA wal_checkpoint(PASSIVE)', { write: true, configure: true })
  writer.run(`INSERT INTO t VALUES ('last of the first log')`)
  first.run('PRAGMA wal_checkpoint(PASSIVE)')
  let calls = 0
  engine.onCheckpoint = () => {
    if (calls++ > 0) return
    // the whole log has been copied, so that this transaction begins it anew
    writer.run(`INSERT INTO t VALUES ('first of the second log')`)
  }
  checkpoint?.discardRows()
  checkpoint?.finalize()
  expect(calls).toBeGreaterThan(0)
  for (let row = 0; row < 30; row++) writer.run(`INSERT INTO t VALUES (randomblob(20000))`)
  first.run('PRAGMA wal_checkpoint(TRUNCATE)')
  const reader = open()
  expect(reader.readInteger('SELECT count(*) FROM t')).toBe(52)
  expect(reader.readInteger(`SELECT count(*) FROM t WHERE a = 'first of the second log'`)).toBe(1)
  expect(reader.readInteger(`SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'`)).toBe(
    1,
  )
})

test.each([3_000, 40_000])('%i aggregate terms are an error; their numbers have 16 bits', (count) => {
  const connection = new SqliteConnection(createEngine(), { name: 'd', file: MAIN_FILE })
  connection.run('CREATE TABLE t (a)')
  const terms = Array.from({ length: count }, (_, index) => `max(a + ${index})`)
  expect(() => connection.readInteger(`SELECT 1 IN (${terms.join()}) FROM t`)).toThrow(
    'more than 2000 aggregate terms',
  )
  expect(connection.readInteger(`SELECT 1 IN (${terms.slice(0, 1_900).join()}) FROM t`)).toBe(0)
})

test('the indexes of a table match it after every UPSERT with several clauses', () => {
  const connection = new SqliteConnection(createEngine(), { name: 'd', file: MAIN_FILE })
  const columns = ['a', 'b', 'c']
  const orders = columns.flatMap((first) =>
    columns.flatMap((second) => columns.map((third) => [first, second, third])),
  )
  const damaged: string[] = []
  for (const order of orders) {
    for (const row of ['(1,9,9)', '(9,1,9)', '(9,9,1)', '(1,2,9)', '(2,9,1)', '(1,1,1)']) {
      const clauses = order.map((column, index) => `ON CONFLICT (${column}) DO UPDATE SET d = ${index}`)
      connection.run('DROP TABLE IF EXISTS t')
      connection.run('CREATE TABLE t (a INTEGER PRIMARY KEY, b UNIQUE, c UNIQUE, d)')
      connection.run('INSERT INTO t VALUES (1,1,1,0), (2,2,2,0)')
      const upsert = `INSERT INTO t (a, b, c) VALUES ${row} ${clauses.join(' ')}`
      try {
        connection.run(upsert)
      } catch {
        // a conflict that no clause handles
      }
      const faults = `SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'`
      if (connection.readInteger(faults) > 0) damaged.push(upsert)
    }
  }
  expect(damaged).toEqual([])
})

test.each(['8480808000', '8780808000', '8FFFFFFF7F', '83FFFFFF7F'])(
  'an index of FTS5 with the number of tombstones %s is an error',
  (count) => {
    const connection = new SqliteConnection(createEngine(), { name: 'd', file: MAIN_FILE })
    connection.run(`CREATE VIRTUAL TABLE f USING fts5(a, content='', contentless_delete=1)`)
    connection.run(`INSERT INTO f (rowid, a) VALUES (1, 'hello world'), (2, 'hello you')`)
    connection.run('DELETE FROM f WHERE rowid = 1')
    // the structure record has eight bytes of cookie and version, then numbers, the eleventh of which counts tombstone pages
    connection.run(
      `UPDATE f_data SET block = (SELECT unhex(substr(h, 1, 36) || '${count}' || substr(h, 39)) FROM (SELECT hex(block) AS h)) WHERE id = 10`,
    )
    // without the fix, memory out of bounds
    expect(() => connection.run(`SELECT count(*) FROM f WHERE f MATCH 'hello'`)).toThrow('out of memory')
  },
)
