import type { ArrayRow } from '@batonsql/core'
import type { Column } from 'drizzle-orm'
import type { SelectedFieldsOrdered } from 'drizzle-orm/sqlite-core/query-builders/select.types'
import { exactNumber, isSafe } from './exact-integer.ts'
import { columnOf, mapResultRow } from './internals.ts'

/** Turns a row of a query builder's result into the object it asked for. */
export function mapRow(
  fields: SelectedFieldsOrdered,
  row: ArrayRow,
  joins: Record<string, boolean> | undefined,
): unknown {
  for (const [at, value] of row.entries()) {
    const column = typeof value === 'bigint' ? columnOf(fields[at]?.field) : null
    if (column) row[at] = decodable(value, column)
  }
  return mapResultRow(fields, row, joins)
}

/**
 * A value as the column can decode it. Those of numbers and dates take what comes; a bigint would reach the user under the
 * type number. An `int64()` column makes a bigint of either.
 * @throws RangeError when a number column has an integer that no number is exactly
 */
export function decodable<T>(value: T, column: Column): T | number {
  if (typeof value !== 'bigint') return value
  if (column.dataType === 'number' || column.dataType === 'date') return exactNumber(value, column)
  return isSafe(value) ? Number(value) : value
}
