import { blob, integer, QueryBuilder, sqliteTable } from 'drizzle-orm/sqlite-core'
import { expect, test, vi } from 'vitest'
import { withExactDecoder } from './exact-decoder.ts'
import { findColumn } from './internals.ts'

const files = sqliteTable('files', {
  bytes: blob({ mode: 'buffer' }),
  json: blob({ mode: 'json' }),
  big: blob({ mode: 'bigint' }),
  size: integer(),
})
const { bytes, json, big, size } = files

test('blob columns can be read without a global Buffer, as on edge platforms', () => {
  const encode = (text: string): Uint8Array => new TextEncoder().encode(text)
  const columns = [bytes, json, big].map(withExactDecoder)
  vi.stubGlobal('Buffer', undefined)
  const values = ['ab', '[1]', '5'].map((text, index) => columns[index]?.mapFromDriverValue(encode(text)))
  vi.unstubAllGlobals()
  expect(values).toEqual([encode('ab'), [1], 5n])
})

test('a number in a blob column is rejected', () => {
  expect(() => withExactDecoder(bytes).mapFromDriverValue(5)).toThrow(TypeError)
  vi.stubGlobal('Buffer', undefined)
  expect(() => withExactDecoder(bytes).mapFromDriverValue(5)).toThrow(TypeError)
})

test('the column of a subquery that is selected as a field is decoded too', () => {
  const select = (columns: Record<string, typeof bytes | typeof size>) =>
    withExactDecoder(new QueryBuilder().select(columns).from(files).as('selected') as unknown)
  const decode = (field: unknown, value: unknown): unknown =>
    (field as { decoder: typeof bytes }).decoder.mapFromDriverValue(value)
  const decoded = decode(select({ bytes }), new Uint8Array([1])) as Uint8Array
  expect([decoded, decoded.buffer.byteLength]).toEqual([Buffer.from([1]), 1])
  expect(() => decode(select({ size }), 2n ** 53n + 1n)).toThrow('files.size: 9007199254740993 is not exact')
  expect(findColumn(select({ bytes, size }))).toBeNull()
})
