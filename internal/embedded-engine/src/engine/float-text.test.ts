import { expect, test } from 'vitest'
import { formatFloat } from './float-text.ts'

test.each([
  [1, '1.0'],
  [0, '0.0'],
  [-0, '-0.0'],
  [1.5, '1.5'],
  [0.1 + 0.2, '0.30000000000000004'],
  [-123456.789, '-123456.789'],
  [1e15, '1000000000000000.0'],
  [9007199254740992, '9007199254740992.0'],
  [1e16, '1e16'],
  [1.5e16, '1.5e16'],
  [1e20, '1e20'],
  [1e300, '1e300'],
  [0.00001, '0.00001'],
  [0.000001, '1e-6'],
  [1.5e-7, '1.5e-7'],
  [5e-324, '5e-324'],
  [1.7976931348623157e308, '1.7976931348623157e308'],
  [Number.POSITIVE_INFINITY, 'null'],
  [Number.NaN, 'null'],
])('%d → %s', (value, text) => expect(formatFloat(value)).toBe(text))

test('writes text that parses to the same number', () => {
  const bits = new DataView(new ArrayBuffer(8))
  for (let count = 0; count < 10_000; count += 1) {
    bits.setUint32(0, Math.random() * 2 ** 32)
    bits.setUint32(4, Math.random() * 2 ** 32)
    const value = bits.getFloat64(0)
    if (Number.isFinite(value)) expect(Object.is(JSON.parse(formatFloat(value)), value)).toBe(true)
  }
})
