import type { ArrayRow, InValue, ObjectRow, ResultSet } from '@batonsql/core'
import { Column, getTableName, is } from 'drizzle-orm'
import type { SelectedFieldsOrdered } from 'drizzle-orm/sqlite-core/query-builders/select.types'
import { mapResultRow } from './internals.ts'

/** What `run()` gives, and every statement without a result of its own. */
export interface RunResult {
  readonly columns: readonly string[]
  /** Types as declared in the schema; an empty string for expressions. */
  readonly columnTypes: readonly string[]
  readonly rows: ObjectRow[]
  readonly rowsAffected: number
  /** Rowid of the last row that was inserted; undefined when none was. */
  readonly lastInsertRowid: bigint | undefined
  /** Not enumerable; makes JSON.stringify possible, which knows no bigint. */
  toJSON(): unknown
}

/** A raw parameter as the server takes it: a Date becomes its milliseconds since 1970, as Drizzle's users know it. */
export const toParam = (value: unknown): InValue =>
  value instanceof Date ? value.getTime() : (value as InValue)

/** Rows by column name. Of columns with the same name the last one stays; `values()` keeps them apart. */
export function objectRows({ columns, rows }: ResultSet<ArrayRow>): ObjectRow[] {
  const plain = !columns.includes('__proto__')
  return rows.map((row) => {
    if (!plain) return Object.fromEntries(row.map((value, at) => [columns[at], value])) as ObjectRow
    const object: ObjectRow = {}
    for (const [at, value] of row.entries()) object[columns[at] as string] = value
    return object
  })
}

export function runResult(result: ResultSet<ArrayRow>): RunResult {
  const run = {
    columns: result.columns,
    columnTypes: result.columnTypes.map((type) => type ?? ''),
    rows: objectRows(result),
    rowsAffected: result.rowsAffected,
    lastInsertRowid: result.lastInsertRowid ?? undefined,
  }
  const toJSON = (): unknown => ({ ...run, lastInsertRowid: run.lastInsertRowid?.toString() })
  return Object.defineProperty(run, 'toJSON', { value: toJSON }) as unknown as RunResult
}

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

const narrowIfExact = (value: bigint): bigint | number =>
  Number.isSafeInteger(Number(value)) ? Number(value) : value

/** Prepares a value for a column of a relational query, of which only Drizzle knows the type. */
export const narrowRelated = (value: unknown): unknown =>
  typeof value === 'bigint' ? narrowIfExact(value) : value
