import { expect, test } from 'vitest'
import type { WireResult, WireValue } from '../base/wire.ts'
import { decodeResult } from './result.ts'

const integer = (value: string): WireValue => ({ type: 'integer', value })
const wire = (names: string[], rows: WireValue[][], fields: Partial<WireResult> = {}): WireResult => ({
  cols: names.map((name) => ({ name, decltype: null })),
  rows,
  affected_row_count: 0,
  last_insert_rowid: null,
  ...fields,
})

test('rows are plain objects, regardless of the column names', () => {
  const names = ['length', '0', '__proto__', 'constructor', 'toString', '']
  const { rows } = decodeResult(wire(names, [names.map((_, index) => integer(String(index)))]), 'auto')
  const row = rows[0] as Record<string, unknown>
  expect(Object.getPrototypeOf(row)).toBe(Object.prototype)
  expect(Object.keys(row).sort()).toEqual([...names].sort())
  expect(Object.getOwnPropertyDescriptor(row, '__proto__')).toEqual({
    value: 2,
    writable: true,
    enumerable: true,
    configurable: true,
  })
  expect(JSON.parse(JSON.stringify(row))['length']).toBe(0)
})

test('if columns have the same name, objects contain the last value and arrays contain all', () => {
  const result = wire(['id', 'id'], [[integer('1'), integer('2')]])
  expect(decodeResult(result, 'auto').rows).toEqual([{ id: 2 }])
  expect(decodeResult(result, 'auto', 'array').rows).toEqual([[1, 2]])
  expect(decodeResult(result, 'auto').columns).toEqual(['id', 'id'])
})

test('a result can be serialized as JSON', () => {
  const blob: WireValue = { type: 'blob', base64: '/wA=' }
  const result = wire(['a', 'b'], [[integer('9007199254740993'), blob]], { affected_row_count: 1 })
  expect(JSON.parse(JSON.stringify(decodeResult(result, 'auto', 'object', 5n)))).toMatchObject({
    rows: [{ a: '9007199254740993', b: '/wA=' }],
    lastInsertRowid: '5',
    rowsAffected: 1,
  })
})

test.each(['object', 'array'] as const)(
  'a row that lacks values, or has too many, is rejected: %s',
  (rowMode) => {
    for (const row of [[], [integer('1')], [integer('1'), integer('2'), integer('3')]])
      expect(() => decodeResult(wire(['a', 'b'], [row]), 'auto', rowMode)).toThrow(
        `a row has ${row.length} values for 2 columns`,
      )
  },
)
