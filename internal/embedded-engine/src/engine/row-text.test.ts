import type { EngineValue } from '@batonsql/server-common/hrana'
import { expect, test } from 'vitest'
import { loadEngineModule } from '../engine-module.ts'
import { type JsonText, toText } from '../protocol/json-text.ts'
import { SharedCallState } from '../protocol/shared-call-state.ts'
import { DatabaseFiles } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import { ErasableInstance } from './erasable-instance.ts'
import { formatFloat } from './float-text.ts'
import { SqliteConnection, type SqliteStatement } from './sqlite-connection.ts'

const engine = new EngineInstance(new ErasableInstance(await loadEngineModule()), {
  files: new DatabaseFiles(null),
  state: new SharedCallState(),
})
const connection = new SqliteConnection(engine, { name: 'd', file: ':memory:' })

function queryRows(sql: string, values: readonly EngineValue[] = []): JsonText {
  const statement = connection.prepare(sql, { write: false }) as SqliteStatement
  statement.bind(values)
  const { text } = statement.readRows({ limitBytes: 2 ** 30, asLines: false, maxValueBytes: 2 ** 30 })
  statement.finalize()
  return text
}

const valueText = (value: EngineValue): string => toText(queryRows('SELECT ?', [value]))

// sixteen characters or bytes are processed at a time, so each is tested at every position
const SPECIAL = ['"', '\\', '\n', '\r', '\t', '\b', '\f', '\u0000', '\u001f', '\u007f', 'é', '€', '😀']

test('encodes text of every length up to 50, with a special character at every position', () => {
  for (let length = 0; length <= 50; length += 1)
    expect(valueText('a'.repeat(length))).toBe(`[{"type":"text","value":"${'a'.repeat(length)}"}]`)
  for (const character of SPECIAL) {
    for (let position = 0; position < 50; position += 1) {
      const text = `${'a'.repeat(position)}${character}${'z'.repeat(49 - position)}`
      expect(valueText(text)).toBe(`[{"type":"text","value":${JSON.stringify(text)}}]`)
    }
  }
})

test('encodes blobs of every length up to 100, with every byte at every position', () => {
  const base64 = (bytes: Uint8Array): string =>
    `[{"type":"blob","base64":"${Buffer.from(bytes).toString('base64').replace(/=+$/, '')}"}]`
  for (let length = 0; length <= 100; length += 1) {
    const bytes = Uint8Array.from({ length }, (_, index) => index * 37)
    expect(valueText(bytes)).toBe(base64(bytes))
  }
  for (let first = 0; first < 256; first += 1) {
    const bytes = Uint8Array.from({ length: 61 }, (_, index) => first + index)
    expect(valueText(bytes)).toBe(base64(bytes))
  }
})

test('floats with few decimals are formatted like other floats', () => {
  const check = (value: number): void => {
    const text = valueText(value)
    expect(text).toBe(`[{"type":"float","value":${formatFloat(value)}}]`)
  }
  for (const value of [
    0,
    -0,
    0.1,
    0.1 + 0.2,
    1e-5,
    9.999e-6,
    123456789.123456,
    999999999999999,
    1e15,
    2 ** 53,
  ])
    for (const sign of [1, -1]) check(sign * value)
  for (let count = 0; count < 20_000; count += 1) {
    const digits = Math.floor(Math.random() * 10 ** (1 + (count % 17)))
    const value = digits / 10 ** (count % 9)
    check(value)
    // the adjacent floats have more digits
    if (value !== 0) check(value * (1 + Number.EPSILON))
  }
})

test('a long result consists of bytes, which can be transferred', () => {
  const sql = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i, ? FROM n'
  const rows = (count: number): string =>
    Array.from(
      { length: count },
      (_, index) => `[{"type":"integer","value":"${index + 1}"},{"type":"text","value":"é"}]`,
    ).join()
  expect(queryRows(sql, [10n, 'é'])).toBe(rows(10))
  const long = queryRows(sql, [10_000n, 'é'])
  expect(long).toEqual([expect.any(Uint8Array)])
  expect(
    toText(
      structuredClone(long, { transfer: (long as Uint8Array<ArrayBuffer>[]).map(({ buffer }) => buffer) }),
    ),
  ).toBe(rows(10_000))
})

test('the buffer of a result that was sent is reused for the next one of similar size', () => {
  const sql = 'SELECT zeroblob(?)'
  const firstChunk = (text: JsonText): Uint8Array<ArrayBuffer> => text[0] as Uint8Array<ArrayBuffer>
  const first = firstChunk(queryRows(sql, [60_000n]))
  engine.recycle(first.buffer)
  const shorter = firstChunk(queryRows(sql, [50_000n]))
  expect(shorter.buffer).toBe(first.buffer)
  expect(toText([shorter])).toBe(toText(queryRows(sql, [50_000n])))
  engine.recycle(shorter.buffer)
  for (const bytes of [200_000n, 29_000n])
    expect(firstChunk(queryRows(sql, [bytes])).buffer).not.toBe(first.buffer)
})

test('an internal query without a row fails, instead of counting as 0', () => {
  expect(connection.readInteger('SELECT 7')).toBe(7)
  expect(() => connection.readInteger('SELECT abs(-9223372036854775808)')).toThrow('integer overflow')
  expect(() => connection.readInteger('SELECT 1 WHERE 0')).toThrow()
})
