import { Column, is, sql } from 'drizzle-orm'
import { exactNumber, isSafe } from './exact-integer.ts'
import { findColumn } from './internals.ts'
import { toOwnBuffer } from './own-buffer.ts'

/**
 * Returns a selected field whose decoder rejects inexact integers in columns of numbers and dates, accepts a bigint for each exact
 * integer, and returns blobs with memory of their own. A field without a column is returned unchanged.
 */
export function withExactDecoder<Field>(field: Field): Field {
  const column = findColumn(field)
  if (column === null) return field
  const mapFromDriverValue = (value: unknown): unknown => decode(value, column)
  return is(field, Column)
    ? // still a column: Drizzle decides by its columns whether a joined row is missing
      (Object.create(field, { mapFromDriverValue: { value: mapFromDriverValue } }) as Field)
    : // Drizzle uses only the decoder of an expression
      (sql``.mapWith(mapFromDriverValue) as Field)
}

/** @throws RangeError for an integer in a number column that a number cannot represent exactly */
function decode(value: unknown, column: Column): unknown {
  const { dataType } = column
  if (dataType === 'buffer') return toOwnBuffer(value)
  if (typeof value !== 'bigint') return column.mapFromDriverValue(value)
  // the decoders of these columns return a bigint as it is, round it, or fail without naming the column
  const isNumber = dataType === 'number' || dataType === 'date'
  if (isNumber) return column.mapFromDriverValue(exactNumber(value, column))
  // with `intMode: 'bigint'` every integer is a bigint; decoders expect a number, and int64() accepts both
  return column.mapFromDriverValue(isSafe(value) ? Number(value) : value)
}
