import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { encodeBase64 } from '#base64'
import { ProtocolError } from '../base/errors.ts'
import type { WireResult, WireValue } from '../base/wire.ts'
import { decodePipeline } from './pipeline.ts'
import { decodeResult, type RowMode } from './result.ts'
import { RowText } from './row-text.ts'
import type { IntMode } from './value.ts'

const cell: fc.Arbitrary<WireValue> = fc.oneof(
  fc.constant({ type: 'null' } as const),
  fc
    .oneof(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.bigInt({ min: -1_000n, max: 1_000n }))
    .map((value) => ({ type: 'integer', value: String(value) }) as const),
  fc.constantFrom('9007199254740991', '9007199254740992', '-9007199254740993').map((value) => ({
    type: 'integer' as const,
    value,
  })),
  fc
    .oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constant(null), fc.constant('1.5e3'))
    .map((value) => ({ type: 'float', value }) as const),
  fc
    .oneof(
      fc.string({ unit: 'binary' }),
      fc.string({
        unit: fc.constantFrom('"', '\\', '"rows":[[', ']],"affected_row_count":', '"cols":', 'é'),
      }),
      fc.string({ minLength: 13, maxLength: 40 }),
    )
    .map((value) => ({ type: 'text', value }) as const),
  fc
    .oneof(fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ minLength: 150, maxLength: 400 }))
    .map((bytes) => ({ type: 'blob', base64: encodeBase64(bytes).replace(/=+$/, '') }) as const),
)

/** Results with matching columns and rows, some of them long enough to be parsed from their text. */
const result = fc.integer({ min: 0, max: 5 }).chain((width) =>
  fc.record({
    cols: fc.array(
      fc.record({
        name: fc.oneof(fc.string(), fc.constantFrom('rows', '__proto__', 'id', 'id', '0')),
        decltype: fc.constant(null),
      }),
      { minLength: width, maxLength: width },
    ),
    rows: fc.array(fc.array(cell, { minLength: width, maxLength: width }), { maxLength: 40 }),
    affected_row_count: fc.constant(0),
    last_insert_rowid: fc.constant(null),
  }),
)

const encodeResponse = (results: readonly unknown[]): string =>
  JSON.stringify({
    baton: null,
    base_url: null,
    results: results.map((value) => ({ type: 'ok', response: { type: 'execute', result: value } })),
  })

const decodeResults = (text: string): WireResult[] =>
  (decodePipeline(text).results as unknown as { response: { result: WireResult } }[]).map(
    ({ response }) => response.result,
  )

function getValueOrError(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return String(error)
  }
}

const modes = fc.record({
  intMode: fc.constantFrom<IntMode>('auto', 'number', 'bigint', 'string'),
  rowMode: fc.constantFrom<RowMode>('object', 'array'),
})

test('parses long rows to the same values as JSON.parse', () => {
  let readAsText = 0
  fc.assert(
    fc.property(fc.array(result, { minLength: 1, maxLength: 3 }), modes, (results, { intMode, rowMode }) => {
      const decoded = decodeResults(encodeResponse(results))
      for (const [index, actual] of decoded.entries()) {
        readAsText += Number(actual.rows instanceof RowText)
        const parsedResult = JSON.parse(JSON.stringify(results[index])) as WireResult
        expect(getValueOrError(() => decodeResult(actual, intMode, rowMode))).toEqual(
          getValueOrError(() => decodeResult(parsedResult, intMode, rowMode)),
        )
      }
    }),
    { numRuns: 500 },
  )
  expect(readAsText).toBeGreaterThan(100)
})

const longResult = (name: string): WireResult => ({
  cols: [{ name, decltype: null }],
  rows: Array.from({ length: 100 }, (_, index) => [{ type: 'text', value: `${name} ${index}` } as const]),
  affected_row_count: 0,
  last_insert_rowid: null,
})
const expectedRows = (name: string): unknown =>
  Array.from({ length: 100 }, (_, index) => ({ [name]: `${name} ${index}` }))

test('rows in the format of libsql-server are read without JSON.parse', () => {
  const cells: Record<string, [WireValue, unknown]> = {
    null: [{ type: 'null' }, null],
    integer: [{ type: 'integer', value: '-5' }, -5],
    float: [{ type: 'float', value: 1.5 }, 1.5],
    text: [{ type: 'text', value: 'a "b"' }, 'a "b"'],
    blob: [{ type: 'blob', base64: 'AQI' }, new Uint8Array([1, 2])],
  }
  const row = Object.values(cells).map(([wireValue]) => wireValue)
  const cols = Object.keys(cells).map((name) => ({ name, decltype: null }))
  const text = encodeResponse([{ ...longResult('a'), cols, rows: Array.from({ length: 100 }, () => row) }])
  const [decoded] = decodeResults(text)
  const parse = vi.spyOn(RowText.prototype, 'parse')
  const expected = Object.fromEntries(Object.entries(cells).map(([name, [, value]]) => [name, value]))
  expect(decodeResult(decoded as WireResult, 'auto').rows).toEqual(
    Array.from({ length: 100 }, () => expected),
  )
  expect(parse).not.toHaveBeenCalled()
})

test.each([
  ['a different order of parts', ({ cols, rows, ...rest }: WireResult) => ({ ...rest, cols, rows })],
  ['rows before columns', ({ cols, rows, ...rest }: WireResult) => ({ rows, ...rest, cols })],
  [
    'another field after the rows',
    ({ cols, rows, ...rest }: WireResult) => ({ cols, rows, more: 1, ...rest }),
  ],
  [
    'a different order in the cells',
    ({ rows, ...rest }: WireResult) => ({
      cols: rest.cols,
      rows: (rows as WireValue[][]).map(([value]) =>
        [{ ...(value as { value: string }), type: 'text' }].map(({ value, type }) => ({ value, type })),
      ),
      affected_row_count: 0,
    }),
  ],
])('%s is parsed', (_, change) => {
  const decoded = decodeResults(
    encodeResponse([change(longResult('a')), change(longResult('b')), longResult('c')]),
  )
  expect(decoded.map((actual) => decodeResult(actual, 'auto').rows)).toEqual(
    ['a', 'b', 'c'].map(expectedRows),
  )
})

test.each([
  ['a blob', { type: 'blob', base64: 'AP//' }, '/', '\\/'],
  ['an integer', { type: 'integer', value: '10' }, '1', '\\u0031'],
  ['an unknown type', { type: 'text', value: 'a' }, 'text', 'other'],
])('%s that servers write differently is left to JSON.parse', (_, value, part, replacement) => {
  const rows = JSON.stringify(Array.from({ length: 100 }, () => [value])).replaceAll(part, replacement)
  expect(new RowText(rows, 0, rows.length).read(() => [], [0], ['a'], 'string')).toBeNull()
})

test('white space is skipped', () => {
  const text = JSON.stringify(JSON.parse(encodeResponse([longResult('a')])), null, 1)
  expect(decodeResults(text).map((actual) => decodeResult(actual, 'auto').rows)).toEqual([expectedRows('a')])
})

test('white space in the middle of rows is ignored', () => {
  const text = encodeResponse([longResult('a')])
  const start = text.indexOf('{"type":"text"')
  const cellLength = text.indexOf('}', start) - start
  // between two tokens of the first cells
  const positions = [
    ...text.slice(start, start + cellLength * 4).matchAll(/(?<=[[\]{},:])(?=[[\]{},:"])|(?<=")(?=[,:}])/g),
  ]
  expect(positions.length).toBeGreaterThan(30)
  for (const { index } of positions) {
    const changedText = `${text.slice(0, start + index)} ${text.slice(start + index)}`
    expect(decodeResults(changedText).map((actual) => decodeResult(actual, 'auto').rows)).toEqual([
      expectedRows('a'),
    ])
  }
})

test('truncated rows are rejected', () => {
  const text = encodeResponse([longResult('a')])
  for (let length = text.indexOf('{"type":"text"'); length < text.length; length += 7)
    expect(() => decodeResults(text.slice(0, length))).toThrow(ProtocolError)
})

test('a short or empty result is not kept as text', () => {
  const [short] = decodeResults(encodeResponse([{ ...longResult('a'), rows: [[{ type: 'null' }]] }]))
  expect(short?.rows).toEqual([[{ type: 'null' }]])
  const [empty] = decodeResults(encodeResponse([{ ...longResult('a'), rows: [] }]))
  expect(empty?.rows).toEqual([])
})

test('parses a batch with long results', () => {
  const text = JSON.stringify({
    results: [
      {
        type: 'ok',
        response: {
          type: 'batch',
          result: { step_results: [longResult('a'), null, longResult('b')], step_errors: [null, null, null] },
        },
      },
    ],
  })
  const { result: batch } = (
    decodePipeline(text).results[0] as unknown as {
      response: { result: { step_results: (WireResult | null)[] } }
    }
  ).response
  const rows = batch.step_results.map((actual) => actual && decodeResult(actual, 'auto').rows)
  expect(rows).toEqual([expectedRows('a'), null, expectedRows('b')])
})
