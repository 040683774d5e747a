import { expect, test } from 'vitest'
import { sessionEffect } from './session-statement.ts'

test.each([
  ['begin', 'begins'],
  ['BEGIN IMMEDIATE', 'begins'],
  ['-- a comment; begin\n /* and another */ begin', 'begins'],
  ['commit', 'ends'],
  ['end transaction', 'ends'],
  ['rollback', 'ends'],
  ['rollback transaction', 'ends'],
  ['rollback to a', null],
  ['rollback transaction to savepoint a', null],
  ['savepoint a', 'session'],
  ["attach database 'x' as y", 'session'],
  ['detach y', 'session'],
  ['pragma foreign_keys = off', 'session'],
  ['pragma main.cache_size=10', 'session'],
  ['pragma foreign_keys(0)', 'session'],
  ['PRAGMA foreign_keys(OFF)', 'session'],
  ['pragma foreign_keys', null],
  ['pragma table_info(person)', null],
  ['select 1', null],
  ['beginning', null],
  ["insert into a values ('begin')", null],
  ['with x as (select 1) select * from x', null],
  ['', null],
  ['/* never closed', null],
])('%s', (sql, effect) => {
  expect(sessionEffect(sql)).toBe(effect)
})

test('long comments cost no more than their length', () => {
  const started = performance.now()
  sessionEffect(`${'/* x */ '.repeat(20_000)}select 1`)
  sessionEffect(`${' '.repeat(100_000)}x`)
  sessionEffect('-- '.repeat(50_000))
  sessionEffect('/*'.repeat(50_000))
  sessionEffect('rollback /**/'.repeat(20_000))
  sessionEffect(`rollback ${'/**/'.repeat(20_000)}`)
  sessionEffect(`pragma ${'x '.repeat(50_000)}`)
  expect(performance.now() - started).toBeLessThan(200)
})
