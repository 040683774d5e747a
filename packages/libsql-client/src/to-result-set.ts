import type { ArrayRow, ResultSet as BatonResult } from '@batonsql/core'
import type { ResultSet, Row, Value } from '@libsql/core/api'
import { ResultSetImpl } from '@libsql/core/util'

/** Converts a result to one of @libsql/client. */
export function toResultSet(result: BatonResult<ArrayRow>): ResultSet {
  const { columns, columnTypes, rowsAffected, lastInsertRowid } = result
  return new ResultSetImpl(
    [...columns],
    columnTypes.map((type) => type ?? ''),
    result.rows.map(rowFactory(columns)),
    rowsAffected,
    lastInsertRowid ?? undefined,
  )
}

/**
 * Returns a function that creates rows: objects with a property for each column (the first, if several have the same name), and a
 * non-enumerable index for each cell.
 */
function rowFactory(columns: readonly string[]): (cells: ArrayRow) => Row {
  const length = columns.length
  // an index, `length` and `__proto__` would not become a property by assignment; of duplicates, the first counts
  const isPlain =
    new Set(columns).size === length && !columns.some((name) => /^(?:\d+|length|__proto__)$/.test(name))
  return (cells) => {
    const row = {}
    Object.defineProperty(row, 'length', { value: length })
    for (let index = 0; index < length; index++) {
      const name = columns[index] as string
      const value = toValue(cells[index] as ArrayRow[number])
      Object.defineProperty(row, index, { value })
      if (isPlain) (row as Row)[name] = value
      else if (!Object.hasOwn(row, name))
        Object.defineProperty(row, name, { value, enumerable: true, configurable: true, writable: true })
    }
    return row as Row
  }
}

/** Copies a blob to its own buffer. */
const toValue = (value: ArrayRow[number]): Value =>
  value instanceof Uint8Array ? value.slice().buffer : value
