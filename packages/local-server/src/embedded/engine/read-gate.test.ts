import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { engineModule } from '../engine-module.ts'
import { CallBoard } from '../protocol/call-board.ts'
import { DatabaseBoard } from '../protocol/database-board.ts'
import { DatabaseFiles, MAIN_FILE } from './database-files.ts'
import { EngineConnection, type EngineStatement } from './engine-connection.ts'
import { EngineInstance } from './engine-instance.ts'
import { ReaderGate, type ReadGate, writerGate } from './read-gate.ts'

const ROWS = 50

/** A row at a time. */
const ONE_ROW = { limitBytes: 1, asLines: true, maxValueBytes: 1_000_000 }

/** An engine that writes and one that reads the same file, as they are in two workers. */
async function openBoth(): Promise<{
  writer: EngineConnection
  reader: EngineConnection
  logBytes(): number
}> {
  const folder = mkdtempSync(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'data.db')
  const module = await engineModule()
  const board = new DatabaseBoard()
  const connect = (gate: ReadGate): EngineConnection => {
    const files = new DatabaseFiles(path, gate)
    onTestFinished(() => files.closeAll())
    const engine = new EngineInstance(module, { files, gate, board: new CallBoard() })
    return new EngineConnection(engine, { name: 'd', file: MAIN_FILE, onlyRead: gate.onlyRead })
  }
  const writer = connect(writerGate(board))
  writer.run('PRAGMA journal_mode = WAL')
  writer.run('PRAGMA wal_autocheckpoint = 0')
  writer.run('CREATE TABLE t(id INTEGER PRIMARY KEY, generation, filler)')
  writer.run(`WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < ${ROWS})
    INSERT INTO t SELECT x, 0, zeroblob(3000) FROM c`)
  const reader = connect(new ReaderGate(board, 0))
  return { writer, reader, logBytes: () => statSync(`${path}.wal`).size }
}

function prepare(connection: EngineConnection, sql: string): EngineStatement {
  return connection.prepare(sql, { write: false, configure: true }) as EngineStatement
}

/** The generation of every row that a half-read statement still answers. */
function readToTheEnd(statement: EngineStatement): string[] {
  const rows: string[] = []
  for (;;) {
    const { text, isDone } = statement.rows(ONE_ROW)
    if (text !== '') rows.push(text)
    if (isDone) break
  }
  statement.finalize()
  return rows.map((row) => /"value":"(\d+)"/.exec(row)?.[1] ?? row)
}

const SNAPSHOT = 'SELECT generation FROM t ORDER BY id'

test('a reader sees every commit, and the one before while the next is not committed', async () => {
  const { writer, reader } = await openBoth()
  for (let generation = 1; generation <= 5; generation += 1) {
    writer.run('BEGIN IMMEDIATE')
    writer.run(`UPDATE t SET generation = ${generation}`)
    expect(reader.readInteger('SELECT max(generation) FROM t')).toBe(generation - 1)
    writer.run('COMMIT')
    expect(reader.readInteger('SELECT min(generation) FROM t')).toBe(generation)
  }
})

test('the log is not moved to the file under a reader', async () => {
  const { writer, reader } = await openBoth()
  const half = prepare(reader, SNAPSHOT)
  half.rows(ONE_ROW)
  writer.run('UPDATE t SET generation = 1')
  const [busy, moved] = [
    writer.readInteger('PRAGMA wal_checkpoint(TRUNCATE)'),
    writer.readInteger('SELECT count(*) FROM t WHERE generation = 1'),
  ]
  expect([busy, moved]).toEqual([1, ROWS])
  expect(readToTheEnd(half)).toEqual(Array.from({ length: ROWS - 1 }, () => '0'))
  expect(writer.readInteger('PRAGMA wal_checkpoint(TRUNCATE)')).toBe(0)
  expect(reader.readInteger('SELECT min(generation) FROM t')).toBe(1)
})

test('a log that is begun anew does not change what a reader sees', async () => {
  const { writer, reader, logBytes } = await openBoth()
  // everything is in the file: the next change is written over the log
  expect(writer.readInteger('PRAGMA wal_checkpoint(FULL)')).toBe(0)
  const before = logBytes()
  const half = prepare(reader, SNAPSHOT)
  half.rows(ONE_ROW)
  writer.run('UPDATE t SET generation = 1')
  writer.run('UPDATE t SET generation = 2 WHERE id % 2 = 0')
  expect(logBytes()).toBeGreaterThanOrEqual(before)
  expect(readToTheEnd(half)).toEqual(Array.from({ length: ROWS - 1 }, () => '0'))
  expect(reader.readInteger('SELECT sum(generation) FROM t')).toBe(ROWS * 1.5)
})

test('a reader changes nothing', async () => {
  const { reader, logBytes } = await openBoth()
  const before = logBytes()
  expect(() => reader.run('UPDATE t SET generation = 9')).toThrow('attempt to write a readonly database')
  expect(() => reader.run('CREATE TABLE u(a)')).toThrow('attempt to write a readonly database')
  reader.close()
  expect(logBytes()).toBe(before)
})
