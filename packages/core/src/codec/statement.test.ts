import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { sql } from './sql-template.ts'
import {
  encodeBatch,
  encodeStatement,
  type InStatement,
  rejectControl,
  rejectSavepoint,
} from './statement.ts'
import { RealValue } from './value.ts'

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

test('the error names the parameter that cannot be sent', () => {
  expect(() => encodeStatement('select ?, ?', [1, Number.NaN])).toThrow(/^parameter 2: /)
  expect(() => encodeStatement('select :total', { total: undefined } as never)).toThrow(/^parameter total: /)
  const batch = ['select 1', { sql: 'select ?, ?', args: [1, new Date() as never] }]
  expect(() => encodeBatch(batch)).toThrow(/^statement 1, parameter 2: a Date /)
})

test.each([
  [
    { sql: 'select ?', args: 5 },
    /^statement 1, expected args as an array or a plain object, not a value of type number$/,
  ],
  ["select '\ud800'", /^statement 1, the SQL has a lone surrogate$/],
  [
    { sql: 'select :a', args: { 'a\ud800': 1 } },
    /^statement 1, parameter a\ud800: the name has a lone surrogate$/,
  ],
  ['commit', /^statement 1, COMMIT is not allowed here/],
])('the error names the position of %o in a batch', (statement, message) => {
  expect(() => encodeBatch(['select 1', statement as never])).toThrow(message)
})

test.each([[undefined], [null], [5], [{}], [{ sql: 5 }]])('rejects %o as a statement', (statement) => {
  expect(() => encodeStatement(statement as InStatement)).toThrow(TypeError)
})

test('rejects arguments that are given twice', () => {
  const twice = /^the statement already has arguments/
  expect(() => encodeStatement(sql`select ${1}`, [99])).toThrow(twice)
  expect(() => encodeStatement(sql`select 1`, [99])).toThrow(twice)
  expect(() => encodeStatement({ sql: 'select :a', args: { a: 1 } }, { a: 2 })).toThrow(twice)
  expect(json({ sql: 'select ?', args: undefined }, [1])).toEqual(json('select ?', [1]))
})

test.each([[undefined], [null], [5], [['select ?', [1]]], [{ text: 'select 1' }]])(
  'rejects %o as a statement',
  (statement) => {
    expect(() => encodeStatement(statement as never)).toThrow(/^expected SQL as a string or \{ sql, args \}/)
    expect(() => encodeBatch(['select 1', statement as never])).toThrow(/^statement 1, expected SQL/)
    const sparse = Object.assign(['select 1'], { length: 2 })
    expect(() => encodeBatch(sparse)).toThrow(/^statement 1, expected SQL/)
  },
)

const notPlain = [
  new Map([['a', 1]]),
  new Set([1]),
  Promise.resolve([1]),
  new Date(),
  new ArrayBuffer(2),
  new Uint8Array(2),
  [1].values(),
  new URLSearchParams({ a: '1' }),
  new RealValue(1),
  Object.create({ a: 1 }),
  () => 1,
]
test.each([null, 'text', 5, ...notPlain].map((args) => ({ args })))(
  'rejects $args as arguments',
  ({ args }) => {
    const message = /^expected args as an array or a plain object, not (null|a value of type )/
    expect(() => encodeStatement('select :a', args as never)).toThrow(message)
    expect(() => encodeStatement({ sql: 'select :a', args: args as never })).toThrow(message)
  },
)

test('accepts plain objects without a prototype, and those of another realm', () => {
  const named = json('select :a', { a: 1 })
  expect(json('select :a', Object.assign(Object.create(null), { a: 1 }))).toEqual(named)
  expect(json('select :a', runInNewContext('({ a: 1 })'))).toEqual(named)
})

test('rejects SQL with a lone surrogate', () => {
  expect(() => encodeStatement("select '\ud800'")).toThrow(RangeError)
})

test('transaction control is not allowed in a batch or on its own', () => {
  expect(() => encodeBatch(['insert into t values (1)', 'commit'])).toThrow(/COMMIT.*transaction\(\)/)
  expect(() => rejectControl(encodeStatement('begin'))).toThrow(TypeError)
  expect(() => rejectControl(encodeStatement('savepoint a'))).not.toThrow()
})

test('rejects SAVEPOINT, which would begin a transaction, but not RELEASE', () => {
  expect(() => rejectSavepoint(encodeStatement('/* mine */ savepoint "a"'))).toThrow(TypeError)
  expect(() => rejectSavepoint(encodeStatement('release a'))).not.toThrow()
})
