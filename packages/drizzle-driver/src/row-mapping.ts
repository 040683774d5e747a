import { Column, is, sql } from 'drizzle-orm'
import { exactNumber, isSafe } from './exact-integer.ts'
import { findColumn } from './internals.ts'
import { toOwnBuffer } from './own-buffer.ts'

/**
 * Returns a selected field whose decoder rejects inexact integers and returns blobs with memory of their own; a field without a
 * column is returned unchanged. Drizzle uses nothing else of a field that is not a column.
 */
export function withExactDecoder<Field>(field: Field): Field {
  const column = findColumn(field)
  if (column === null) return field
  const mapFromDriverValue = (value: unknown): unknown =>
    column.dataType === 'buffer' ? toOwnBuffer(value) : column.mapFromDriverValue(prepare(value, column))
  return is(field, Column)
    ? // still a column: Drizzle decides by its columns whether a joined row is missing
      (Object.create(field, { mapFromDriverValue: { value: mapFromDriverValue } }) as Field)
    : (sql``.mapWith(mapFromDriverValue) as Field)
}

/**
 * Prepares a value for the decoder of its column. The decoders of number and date columns do not check the value, so a bigint would
 * reach the user typed as number. An `int64()` column accepts both.
 * @throws RangeError for an integer in a number column that is not exact as a number
 */
function prepare<T>(value: T, column: Column): T | number {
  if (typeof value !== 'bigint') return value
  if (column.dataType === 'number' || column.dataType === 'date') return exactNumber(value, column)
  return isSafe(value) ? Number(value) : value
}
