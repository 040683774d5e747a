import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodeBase64 } from '#base64'
import type { WireValue } from '../base/wire.ts'
import * as onNode from './base64/node.ts'
import * as portable from './base64/portable.ts'
import { decodeValue, encodeValue, type InValue, RealValue } from './value.ts'

const encode = (value: InValue): unknown => JSON.parse(encodeValue(value, 'parameter 1'))
const roundTrip = (value: InValue) => decodeValue(encode(value) as WireValue, 'auto', 'a')

test.each<[InValue, unknown]>([
  [null, { type: 'null' }],
  [1, { type: 'integer', value: '1' }],
  [-9007199254740991, { type: 'integer', value: '-9007199254740991' }],
  [2 ** 53, { type: 'float', value: 9007199254740992 }],
  [1.5, { type: 'float', value: 1.5 }],
  [9223372036854775807n, { type: 'integer', value: '9223372036854775807' }],
  [-9223372036854775808n, { type: 'integer', value: '-9223372036854775808' }],
  [true, { type: 'integer', value: '1' }],
  [false, { type: 'integer', value: '0' }],
  ['', { type: 'text', value: '' }],
  ['a\0"\\\n😀', { type: 'text', value: 'a\0"\\\n😀' }],
  [new Uint8Array(), { type: 'blob', base64: '' }],
  [new Uint8Array([1, 2]).buffer, { type: 'blob', base64: 'AQI=' }],
  [new Uint8Array([0, 1, 2, 3]).subarray(1, 3), { type: 'blob', base64: 'AQI=' }],
  [new DataView(new Uint8Array([0, 1, 2]).buffer, 1), { type: 'blob', base64: 'AQI=' }],
])('encodes %o', (value, wire) => {
  expect(encode(value)).toEqual(wire)
})

test('keeps the sign of zero', () => {
  expect(encodeValue(-0, 'parameter 1')).toBe('{"type":"float","value":-0.0}')
  expect(roundTrip(-0)).toBe(-0)
  expect(roundTrip(0)).toBe(0)
})

test.each<[unknown, RegExp]>([
  [Number.NaN, /^parameter 7: .*NaN/],
  [Infinity, /^parameter 7: .*Infinity/],
  [-Infinity, /^parameter 7: .*-Infinity/],
  [2n ** 63n, /^parameter 7: .*64 bits/],
  [-(2n ** 63n) - 1n, /^parameter 7: .*64 bits/],
  ['\ud800', /^parameter 7: .*surrogate/],
  [undefined, /^parameter 7: undefined.*null/],
  [{}, /^parameter 7: .*JSON\.stringify/],
  [[1], /^parameter 7: .*JSON\.stringify/],
  [new Date(0), /^parameter 7: .*Date.*toISOString/],
  [() => 1, /^parameter 7: a value of type function cannot be stored/],
  [Symbol('x'), /^parameter 7: a value of type symbol cannot be stored/],
])('rejects %o and names the parameter', (value, message) => {
  expect(() => encodeValue(value as InValue, 'parameter 7')).toThrow(message)
})

test('a RealValue is sent as a float, even if it is an integer', () => {
  expect(encodeValue(new RealValue(3), 'x')).toBe('{"type":"float","value":3}')
  expect(encodeValue(new RealValue(-0), 'x')).toBe('{"type":"float","value":-0.0}')
  expect(() => encodeValue(new RealValue(Number.NaN), 'x')).toThrow(RangeError)
})

test('every value is returned unchanged', () => {
  const value = fc.oneof(
    fc.constant(null),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.string({ unit: 'grapheme' }),
    fc.uint8Array({ maxLength: 70 }),
  )
  fc.assert(
    fc.property(value, (input) => {
      const expected =
        typeof input === 'bigint' && input >= Number.MIN_SAFE_INTEGER && input <= Number.MAX_SAFE_INTEGER
          ? Number(input)
          : input
      expect(roundTrip(input)).toEqual(expected)
    }),
  )
})

test.each([
  ['on node', onNode],
  ['on other runtimes', portable],
])('base64 %s, with and without padding', (_, { decodeBase64, encodeBase64: encode }) => {
  for (const length of [0, 1, 2, 3, 4, 49, 200, 201, 202, 50_000]) {
    const bytes = Uint8Array.from({ length }, (__, index) => (index * 37 + 251) % 256)
    const base64 = Buffer.from(bytes).toString('base64')
    expect(encode(bytes)).toBe(base64)
    expect(decodeBase64(base64)).toEqual(bytes)
    expect(decodeBase64(base64.replace(/=+$/, ''))).toEqual(bytes)
  }
  for (const text of ['*', 'A', `${'A'.repeat(299)}*`, `${'A'.repeat(300)}*`, 'A'.repeat(301)])
    expect(() => decodeBase64(text)).toThrow()
})

test('decodes blobs with and without padding, of every length', () => {
  for (let length = 0; length < 50; length++) {
    const bytes = Uint8Array.from({ length }, (_, index) => (index * 37 + 251) % 256)
    const base64 = encodeBase64(bytes)
    expect(base64).toBe(Buffer.from(bytes).toString('base64'))
    expect(decodeValue({ type: 'blob', base64 }, 'auto', 'a')).toEqual(bytes)
    expect(decodeValue({ type: 'blob', base64: base64.replace(/=+$/, '') }, 'auto', 'a')).toEqual(bytes)
  }
})

test('encodes a large blob', () => {
  const bytes = new Uint8Array(1_000_003).fill(7)
  expect(encodeBase64(bytes)).toBe(Buffer.from(bytes).toString('base64'))
})

test('returned integers depend on intMode', () => {
  const integer = (value: string): WireValue => ({ type: 'integer', value })
  expect(decodeValue(integer('9007199254740991'), 'auto', 'a')).toBe(9007199254740991)
  expect(decodeValue(integer('9007199254740992'), 'auto', 'a')).toBe(9007199254740992n)
  expect(decodeValue(integer('9007199254740993'), 'auto', 'a')).toBe(9007199254740993n)
  expect(decodeValue(integer('-9223372036854775808'), 'auto', 'a')).toBe(-9223372036854775808n)
  expect(decodeValue(integer('5'), 'bigint', 'a')).toBe(5n)
  expect(decodeValue(integer('9007199254740993'), 'string', 'a')).toBe('9007199254740993')
  expect(decodeValue(integer('5'), 'number', 'a')).toBe(5)
  expect(() => decodeValue(integer('9007199254740993'), 'number', 'total')).toThrow(
    /column total: 9007199254740993/,
  )
})

test('decodes floats sent as a number, text or null', () => {
  expect(decodeValue({ type: 'float', value: 1.5 }, 'auto', 'a')).toBe(1.5)
  expect(decodeValue({ type: 'float', value: '1.5' }, 'auto', 'a')).toBe(1.5)
  expect(decodeValue({ type: 'float', value: null }, 'auto', 'a')).toBeNaN()
})

test('an unknown type of value is a protocol error', () => {
  expect(() => decodeValue({ type: 'decimal', value: '1' } as unknown as WireValue, 'auto', 'price')).toThrow(
    expect.objectContaining({ code: 'PROTOCOL', message: expect.stringContaining('column price') }),
  )
})

test.each([
  ['buffer', (buffer: ArrayBuffer) => buffer],
  ['view', (buffer: ArrayBuffer) => new Uint8Array(buffer, 1, 2)],
  ['DataView', (buffer: ArrayBuffer) => new DataView(buffer)],
])('a transferred %s is rejected, and the error names the parameter', (_, toValue) => {
  const buffer = new ArrayBuffer(8)
  const value = toValue(buffer)
  structuredClone(buffer, { transfer: [buffer] })
  expect(() => encodeValue(value, 'parameter 3')).toThrow('parameter 3: the buffer is detached')
})
