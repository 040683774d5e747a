import type { ResultSet } from '@batonsql/core'
import { type CompiledQuery, type QueryResult, RawNode, SelectQueryNode } from 'kysely'

/** Whether a query may be read-only. All builders except selects change something. */
export const mayBeReadOnly = ({ query }: CompiledQuery): boolean =>
  SelectQueryNode.is(query) || RawNode.is(query)

/** Converts the result of a query to Kysely's form. */
export function queryResult(query: CompiledQuery, result: ResultSet): QueryResult<unknown> {
  const { rowsAffected, lastInsertRowid } = result
  const rows = mayBeReadOnly(query) ? result.rows : withPlainNames(result)
  if (result.columns.length > 0)
    return rowsAffected > 0 || !mayBeReadOnly(query)
      ? { rows, numAffectedRows: BigInt(rowsAffected) }
      : { rows }
  return {
    rows,
    numAffectedRows: BigInt(rowsAffected),
    ...(lastInsertRowid !== null && { insertId: lastInsertRowid }),
  }
}

/** Matches a column name that is a quoted reference. */
const REFERENCE = /^(?:"(?:[^"]|"")*"\.)*"((?:[^"]|"")*)"$/

/** Names the columns of RETURNING as SQLite does. Turso's engine uses the text of the reference as the name: `"pet"."name"`. */
function withPlainNames({ columns, rows }: ResultSet): ResultSet['rows'] {
  if (!columns.some((name) => REFERENCE.test(name))) return rows
  const toPlainName = (name: string): string =>
    name.replace(REFERENCE, (_, column: string) => column.replaceAll('""', '"'))
  return rows.map((row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [toPlainName(name), value])),
  )
}
