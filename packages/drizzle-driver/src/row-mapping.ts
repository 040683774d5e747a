import type { ArrayRow } from '@batonsql/core'
import { Column, getTableName, is } from 'drizzle-orm'
import type { SelectedFieldsOrdered } from 'drizzle-orm/sqlite-core/query-builders/select.types'
import { mapResultRow } from './internals.ts'
import { narrowIfExact } from './values.ts'

/** Turns a row of a query builder's result into the object it asked for. */
export function mapRow(
  fields: SelectedFieldsOrdered,
  row: ArrayRow,
  joins: Record<string, boolean> | undefined,
): unknown {
  for (const [at, value] of row.entries()) {
    if (typeof value === 'bigint') row[at] = narrow(value, fields[at]?.field)
  }
  return mapResultRow(fields, row, joins)
}

/**
 * Columns of numbers, booleans and dates take what comes; a bigint would reach the user under the type number. An `int64()`
 * column makes a bigint of either.
 */
function narrow(value: bigint, field: unknown): bigint | number {
  if (!is(field, Column)) return value
  const narrowed = narrowIfExact(value)
  if (typeof narrowed === 'bigint' && field.dataType === 'number')
    throw new RangeError(
      `${getTableName(field.table)}.${field.name}: ${value} is not exact as a number; declare the column with int64()`,
    )
  return narrowed
}

/** Prepares a value for a column of a relational query, of which only Drizzle knows the type. */
export const narrowRelated = (value: unknown): unknown =>
  typeof value === 'bigint' ? narrowIfExact(value) : value
