import { expect, test } from 'vitest'
import { formatSizeLimit, parseSizeLimit } from './size-limit.ts'

test.each([
  ['', null],
  ['0', null],
  ['0mb', null],
  // a limit, however small, is not unlimited
  ['0.5', 1],
  ['0.0001k', 1],
  ['1048576', 1_048_576],
  ['256mb', 268_435_456],
  ['1.5 GiB', 1_610_612_736],
  ['2k', 2_048],
  ['10b', 10],
])('parses %j', (text, bytes) => {
  expect(parseSizeLimit(text)).toBe(bytes)
})

test.each(['x', '-1', '1e3', '.5g', '1i', '1ib', '9999999999t', ' '])('rejects %j', (text) => {
  expect(() => parseSizeLimit(text)).toThrow('invalid size_limit')
})

test.each([
  [null, ''],
  [1, '1'],
  [1_536, '1536'],
  [2_048, '2kb'],
  [1_610_612_736, '1536mb'],
])('formats %j', (bytes, text) => {
  expect(formatSizeLimit(bytes)).toBe(text)
})
