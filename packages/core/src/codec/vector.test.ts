import { expect, test } from 'vitest'
import { decodeVector, encodeVector } from './vector.ts'

test('vectors round-trip as little-endian 32-bit numbers', () => {
  expect(encodeVector([1, 2.5])).toEqual(new Uint8Array([0, 0, 128, 63, 0, 0, 32, 64]))
  const values = new Float32Array([0, -0, 1e-40, 3.4e38, -1.5])
  expect(decodeVector(encodeVector(values))).toEqual(values)
  // a view into a buffer, at an offset that is not a multiple of four
  const shifted = new Uint8Array([9, ...encodeVector([7])]).subarray(1)
  expect(decodeVector(shifted)).toEqual(new Float32Array([7]))
  expect(decodeVector(encodeVector([]))).toEqual(new Float32Array())
})

test.each([Number.NaN, Infinity, 1e39, -1e39, 3.4028235677973366e38, undefined, null, '1', true, 1n])(
  '%o is rejected with its position',
  (value) => {
    expect(() => encodeVector([1, value as number])).toThrow(/^a vector cannot hold .*position 1/)
  },
)

test.each([
  undefined,
  null,
  5,
  '12',
  {},
  new Map([[0, 1]]),
  new Set([1]),
  new DataView(new ArrayBuffer(4)),
  () => {},
])('encodeVector rejects %o, which is no list of numbers', (values) => {
  expect(() => encodeVector(values as never)).toThrow(
    /^expected a vector as an array or a Float32Array, not (?:undefined|null|a value of type \w+)$/,
  )
})

test('typed arrays of every number type are vectors', () => {
  for (const values of [new Float64Array([1, 2]), new Int8Array([1, 2]), new Uint32Array([1, 2])])
    expect(encodeVector(values as never)).toEqual(encodeVector([1, 2]))
})

test.each([
  [new Uint8Array(5), '5 bytes'],
  ['[1]', 'a value of type string'],
  [null, 'null'],
])('rejects %o, which is not a vector', (value, reason) => {
  expect(() => decodeVector(value as Uint8Array)).toThrow(`not a vector of 32-bit numbers: ${reason}`)
})
