import type { ArrayRow, ResultSet as BatonResult } from '@batonsql/core'
import type { ResultSet, Row, Value } from '@libsql/core/api'
import { ResultSetImpl } from '@libsql/core/util'

export function toResultSet(result: BatonResult<ArrayRow>): ResultSet {
  const { columns, columnTypes, rowsAffected, lastInsertRowid } = result
  return new ResultSetImpl(
    [...columns],
    columnTypes.map((type) => type ?? ''),
    result.rows.map(rowsOf(columns)),
    rowsAffected,
    lastInsertRowid ?? undefined,
  )
}

/**
 * Makes the function that makes a row: an object with a property for each column, the first of those with one name, that is an
 * array as well, by properties that `Object.keys` does not show.
 */
function rowsOf(columns: readonly string[]): (cells: ArrayRow) => Row {
  const length = columns.length
  // a name that is a place in the row or a setter needs care, and so does the second of two
  const isPlain =
    new Set(columns).size === length && !columns.some((name) => /^(?:\d+|length|__proto__)$/.test(name))
  return (cells) => {
    const row = {}
    Object.defineProperty(row, 'length', { value: length })
    for (let at = 0; at < length; at++) {
      const name = columns[at] as string
      const value = toValue(cells[at] as ArrayRow[number])
      Object.defineProperty(row, at, { value })
      if (isPlain) (row as Row)[name] = value
      else if (!Object.hasOwn(row, name))
        Object.defineProperty(row, name, { value, enumerable: true, configurable: true, writable: true })
    }
    return row as Row
  }
}

/** A blob is a buffer of its own. */
const toValue = (value: ArrayRow[number]): Value =>
  value instanceof Uint8Array ? value.slice().buffer : value
