import { expect, test } from 'vitest'
import { loadEngineModule } from '../engine-module.ts'
import { SharedCallState } from '../protocol/shared-call-state.ts'
import { DatabaseFiles } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import { ErasableInstance } from './erasable-instance.ts'
import { SqliteConnection } from './sqlite-connection.ts'

const instance = new ErasableInstance(await loadEngineModule())

function createEngine(): { engine: EngineInstance; connection: SqliteConnection } {
  const engine = new EngineInstance(instance, {
    files: new DatabaseFiles(null),
    state: new SharedCallState(),
  })
  return { engine, connection: new SqliteConnection(engine, { name: 'd', file: ':memory:' }) }
}

test('leaves no data of a database in memory for the next one', () => {
  const { engine: first, connection } = createEngine()
  connection.run("CREATE TABLE t AS SELECT 'a secret ' || value AS a FROM generate_series(1, 20000)")
  // the same memory object serves all engines
  const { memory } = first.api
  const isInMemory = (text: string): boolean => Buffer.from(memory.buffer).includes(text)
  expect(isInMemory('a secret 12345')).toBe(true)
  const { connection: next } = createEngine()
  expect(isInMemory('a secret')).toBe(false)
  expect(next.readInteger('SELECT count(*) FROM sqlite_schema')).toBe(0)
})

test('an engine cannot be used after the next one was created', () => {
  const { connection } = createEngine()
  const statement = connection.prepare('SELECT 1', { write: false })
  createEngine()
  for (const use of [
    () => connection.run('SELECT 1'),
    () => statement?.discardRows(),
    () => connection.close(),
  ])
    expect(use).toThrow('the engine has been given another database')
})

test('reuses memory that was added for a previous database', () => {
  const sizes = Array.from({ length: 20 }, () => {
    const { engine, connection } = createEngine()
    connection.run('CREATE TABLE t AS SELECT randomblob(1000) AS a FROM generate_series(1, 2000)')
    return engine.api.memory.buffer.byteLength
  })
  expect(sizes.at(-1)).toBe(sizes[0])
  expect(instance.isReusable).toBe(true)
  createEngine().connection.run(
    'CREATE TABLE t AS SELECT randomblob(1000) AS a FROM generate_series(1, 40000)',
  )
  expect(instance.isReusable).toBe(false)
})
