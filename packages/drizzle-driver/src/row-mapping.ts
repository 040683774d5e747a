import type { ArrayRow } from '@batonsql/core'
import type { Column } from 'drizzle-orm'
import type { SelectedFieldsOrdered } from 'drizzle-orm/sqlite-core/query-builders/select.types'
import { exactNumber, isSafe } from './exact-integer.ts'
import { findColumn, mapResultRow } from './internals.ts'

/** Maps a row to the object that a query builder selects. */
export function mapRow(
  fields: SelectedFieldsOrdered,
  row: ArrayRow,
  joins: Record<string, boolean> | undefined,
): unknown {
  for (const [index, value] of row.entries()) {
    const column = typeof value === 'bigint' ? findColumn(fields[index]?.field) : null
    if (column) row[index] = prepareForDecoder(value, column)
  }
  return mapResultRow(fields, row, joins)
}

/**
 * Prepares a value for the decoder of its column. The decoders of number and date columns do not check the value, so a bigint would
 * reach the user typed as number. An `int64()` column accepts both.
 * @throws RangeError for an integer in a number column that is not exact as a number
 */
export function prepareForDecoder<T>(value: T, column: Column): T | number {
  if (typeof value !== 'bigint') return value
  if (column.dataType === 'number' || column.dataType === 'date') return exactNumber(value, column)
  return isSafe(value) ? Number(value) : value
}
