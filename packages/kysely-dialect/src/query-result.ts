import type { ResultSet } from '@batonsql/core'
import {
  AliasNode,
  type CompiledQuery,
  type QueryResult,
  RawNode,
  type ReturningNode,
  SelectQueryNode,
} from 'kysely'
import { columnName } from './column-name.ts'

/** Whether a query may be read-only. All builders except selects change something. */
export const mayBeReadOnly = ({ query }: CompiledQuery): boolean =>
  SelectQueryNode.is(query) || RawNode.is(query)

/** Converts the result of a query to Kysely's form. */
export function queryResult(query: CompiledQuery, result: ResultSet): QueryResult<unknown> {
  const { rowsAffected, lastInsertRowid } = result
  const rows = mayBeReadOnly(query) ? result.rows : withPlainNames(query, result)
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

/**
 * Names the columns of RETURNING as SQLite does. Turso's engine uses the text of a reference as the name, `"pet"."name"`, which on
 * another server can be the name of a column.
 */
function withPlainNames({ query }: CompiledQuery, { columns, rows }: ResultSet): ResultSet['rows'] {
  const { selections = [] } = (query as { readonly returning?: ReturningNode }).returning ?? {}
  const newNames = new Map<string, string>()
  for (const [index, { selection }] of selections.entries()) {
    const name = columnName(selection)
    // the columns of returningAll() have plain names, and shift the others
    if (name === null && !AliasNode.is(selection)) return rows
    const actualName = columns[index]
    if (name !== null && actualName !== name && actualName?.endsWith(`"${name.replaceAll('"', '""')}"`))
      newNames.set(actualName, name)
  }
  if (newNames.size === 0) return rows
  return rows.map((row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [newNames.get(name) ?? name, value])),
  )
}
