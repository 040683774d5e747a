import { expect, test } from 'vitest'
import {
  encodeBatch,
  encodeStatement,
  type InStatement,
  isReadOnly,
  leavesNoTrace,
  refuseControl,
  refuseSavepoint,
  transactionControl,
} from './statement.ts'

const json = (...args: Parameters<typeof encodeStatement>): unknown =>
  JSON.parse(encodeStatement(...args).json)

test('writes text, positional and named arguments', () => {
  expect(json('select 1')).toEqual({ sql: 'select 1' })
  expect(json('select ?', [])).toEqual({ sql: 'select ?' })
  expect(json('select ?', [1])).toEqual({ sql: 'select ?', args: [{ type: 'integer', value: '1' }] })
  expect(json({ sql: 'select ?', args: ['a'] })).toEqual({
    sql: 'select ?',
    args: [{ type: 'text', value: 'a' }],
  })
  expect(json('select :a, @b', { a: 1, '@b': null })).toEqual({
    sql: 'select :a, @b',
    named_args: [
      { name: 'a', value: { type: 'integer', value: '1' } },
      { name: '@b', value: { type: 'null' } },
    ],
  })
})

test('names the parameter that cannot be sent', () => {
  expect(() => encodeStatement('select ?, ?', [1, Number.NaN])).toThrow(/^parameter 2: /)
  expect(() => encodeStatement('select :total', { total: undefined } as never)).toThrow(/^parameter total: /)
})

test.each([[undefined], [null], [5], [{}], [{ sql: 5 }]])('refuses %o as a statement', (statement) => {
  expect(() => encodeStatement(statement as InStatement)).toThrow(TypeError)
})

test.each([['text'], [5], [new Uint8Array(2)]])('refuses %o as arguments', (args) => {
  expect(() => encodeStatement('select ?', args as never)).toThrow(TypeError)
})

test('refuses SQL that is not Unicode', () => {
  expect(() => encodeStatement("select '\ud800'")).toThrow(RangeError)
})

test.each<[string, ReturnType<typeof transactionControl>]>([
  ['BEGIN', 'begin'],
  ['begin immediate transaction', 'begin'],
  [' ;; /* a */ -- b\n commit;', 'commit'],
  ['End', 'commit'],
  ['\ufeffROLLBACK', 'rollback'],
  ['rollback transaction', 'rollback'],
  ['rollback to a', null],
  ['ROLLBACK /* x */ TRANSACTION -- y\nTO SAVEPOINT a', null],
  ['savepoint a', null],
  ['release a', null],
  ['select 1', null],
  ['beginning', null],
  ['explain begin', null],
  ['', null],
  ['-- begin', null],
  ['/* begin', null],
  ['constructor', null],
  ['/* a */ begin /* b', 'begin'],
  ['rollback -- to a', 'rollback'],
  ['begin/**/immediate', 'begin'],
  ['rollback/**/to a', null],
  ['rollback -- mine\n transaction /* mine */ to savepoint a', null],
  ['rollbacking to a', null],
  ["select '/* ' begin", null],
])('tells what %o does to a transaction', (sql, control) => {
  expect(transactionControl(sql)).toBe(control)
})

test.each<[string, boolean]>([
  ['select 1', true],
  [' (SELECT 1)', true],
  ['values (1)', true],
  ['explain insert into t values (1)', true],
  ['with x as (select 1) select * from x', true],
  ['with x as (select 1) insert into t select * from x', false],
  ["with x as (select 'delete') select * from x", false],
  ['/* mine */ select 1', true],
  ['-- mine\n-- too\n select 1', true],
  ["/* mine */ with x as (select '--') insert into t select * from x", false],
  ["with x as (select '/*') insert into t select '*/' from x", false],
  ['/* select */ delete from t', false],
  ['/* not ended: select 1', false],
  ['WITH x AS (SELECT 1) UPDATE t SET a = 1', false],
  ['pragma table_info(t)', false],
  ['attach x as y', false],
  ['insert into t values (1)', false],
  ['-- select\ninsert into t values (1)', false],
  ['selection', false],
  ['', false],
])('%s is read only: %s', (sql, expected) => {
  expect(isReadOnly(sql)).toBe(expected)
})

test('reading a text of many comments takes no time', () => {
  const started = performance.now()
  expect(transactionControl(`${'/**/'.repeat(50_000)}1`)).toBeNull()
  expect(transactionControl(`/*${'/*'.repeat(50_000)}1`)).toBeNull()
  expect(transactionControl(`rollback${' '.repeat(50_000)}x`)).toBe('rollback')
  expect(isReadOnly(`/*${'*'.repeat(2_000_000)}/ select 1`)).toBe(true)
  expect(performance.now() - started).toBeLessThan(1_000)
})

test('transaction control has no place in a batch or by itself', () => {
  expect(() => encodeBatch(['insert into t values (1)', 'commit'])).toThrow(/COMMIT.*transaction\(\)/)
  expect(() => refuseControl('begin')).toThrow(TypeError)
  expect(() => refuseControl('savepoint a')).not.toThrow()
})

test.each(['savepoint a', ' ;SAVEPOINT a', '/* mine */ -- too\n savepoint "a"', '\ufeffsavepoint a'])(
  '%j begins a transaction where there is none',
  (sql) => {
    expect(() => refuseSavepoint(sql)).toThrow(TypeError)
  },
)

test.each([
  ['select 1', true],
  ['(select 1)', true],
  ['-- mine\nINSERT into t values (1)', true],
  ['with a as (select 1) delete from t', true],
  ['savepoint a', false],
  ['/* mine */ savepoint a', false],
  [';savepoint a', false],
  ['release a', false],
  ['pragma foreign_keys = off', false],
  ["attach 'a' as b", false],
  ['create temp table t (a)', false],
  ['', false],
])('%j may be followed by others on its connection: %j', (sql, may) => {
  expect(leavesNoTrace(sql)).toBe(may)
})
