import { describe, expect, test } from 'vitest'
import { parseStatements } from './statement.ts'

describe('classifies statements', () => {
  test.each([
    ['select 1', 'query', 'read', false],
    ['VALUES (1)', 'query', 'read', false],
    ['WITH a AS (SELECT 1) SELECT * FROM a', 'query', 'read', false],
    ['WITH a AS (SELECT 1), b(x) AS (DELETE) INSERT INTO t SELECT * FROM a', 'insert', 'write', true],
    ['with recursive a as (select 1) update t set a = 1', 'change', 'write', true],
    ['with replace as (select 1), b as (select 2) select * from replace', 'query', 'read', false],
    ['with replace(a) as (values (1)) replace into t select a from replace', 'insert', 'write', true],
    ['REPLACE INTO t VALUES (1)', 'insert', 'write', true],
    ['DELETE FROM t', 'change', 'write', true],
    ['CREATE TABLE t(a)', 'schema', 'write', true],
    ['REINDEX', 'schema', 'write', true],
    ['BEGIN', 'begin', 'read', false],
    ['BEGIN DEFERRED TRANSACTION', 'begin', 'read', false],
    ['BEGIN IMMEDIATE', 'begin', 'read', true],
    ['begin exclusive', 'begin', 'read', true],
    ['COMMIT', 'end', 'read', false],
    ['ROLLBACK TO a', 'end', 'read', false],
    ['SAVEPOINT a', 'end', 'read', false],
    ['EXPLAIN INSERT INTO t VALUES (1)', 'explain', 'read', false],
    ['PRAGMA table_info(t)', 'pragma', 'read', false],
    ['PRAGMA main.foreign_keys', 'pragma', 'write', false],
    ['PRAGMA user_version = 5', 'pragma', 'write', true],
    ['DETACH a', 'detach', 'none', false],
    ['COMIT', 'unknown', 'read', false],
  ])('%s', (sql, kind, access, needsWriteLock) => {
    expect(parseStatements(sql)[0]).toMatchObject({ kind, access, needsWriteLock })
  })
})

describe('rejects unsupported statements, with the whole text in the message', () => {
  test.each([
    'VACUUM',
    'SELECT 1; ANALYZE t',
    'CREATE TEMP TABLE t(a)',
    'create temporary view v as select 1',
    'CREATE TABLE IF NOT EXISTS temp.t(a)',
    "ATTACH 'x' AS y",
    'PRAGMA journal_mode = DELETE',
    'PRAGMA wal_checkpoint',
    'PRAGMA no_such_thing',
    'INSERT INTO libsql_wasm_func_table VALUES (1)',
  ])('%s', (sql) => {
    expect(() => parseStatements(sql)).toThrow(
      `SQL string could not be parsed: unsupported statement: ${sql}`,
    )
  })

  test('rejects U+0000, at which the engine would stop reading', () => {
    expect(() => parseStatements('DELETE FROM t\0 WHERE a = 1')).toThrow('unrecognized token at (1, 14)')
  })

  test('rejects an unterminated comment or literal', () => {
    expect(() => parseStatements('DELETE FROM t /* WHERE a = 1')).toThrow(
      'non-terminated block comment at (1, 15)',
    )
    expect(() => parseStatements("SELECT 1,\n 'abc")).toThrow('non-terminated literal at (2, 2)')
  })
})
