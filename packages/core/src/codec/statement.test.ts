import { expect, test } from 'vitest'
import {
  encodeBatch,
  encodeStatement,
  type InStatement,
  refuseControl,
  refuseSavepoint,
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

test('transaction control has no place in a batch or by itself', () => {
  expect(() => encodeBatch(['insert into t values (1)', 'commit'])).toThrow(/COMMIT.*transaction\(\)/)
  expect(() => refuseControl(encodeStatement('begin'))).toThrow(TypeError)
  expect(() => refuseControl(encodeStatement('savepoint a'))).not.toThrow()
})

test('SAVEPOINT begins a transaction where there is none', () => {
  expect(() => refuseSavepoint(encodeStatement('/* mine */ savepoint "a"'))).toThrow(TypeError)
  expect(() => refuseSavepoint(encodeStatement('release a'))).not.toThrow()
})
