import type { PreparedQueryConfig, SQLitePreparedQuery } from 'drizzle-orm/sqlite-core'
import type { SelectedFieldsOrdered } from 'drizzle-orm/sqlite-core/query-builders/select.types'
import * as utils from 'drizzle-orm/utils'

// Everything of Drizzle's that a driver needs and that its type declarations leave out is touched here and nowhere else.

type AnyPreparedQuery = SQLitePreparedQuery<PreparedQueryConfig>
type JoinsNotNullable = Record<string, boolean> | undefined

interface PreparedInternals {
  readonly joinsNotNullableMap: JoinsNotNullable
  queryWithCache<T>(sql: string, params: readonly unknown[], run: () => Promise<T>): Promise<T>
}

/** What `db.batch` calls on the things it is given. */
export interface Runnable {
  getQuery(): { readonly sql: string; readonly params: unknown[] }
  mapResult(result: unknown, isFromBatch: boolean): unknown
}

/** Turns a row of values into the object a query asked for. */
export const mapResultRow = (
  utils as unknown as {
    mapResultRow: (fields: SelectedFieldsOrdered, row: unknown[], joins: JoinsNotNullable) => unknown
  }
).mapResultRow

/** Which joined tables can't be missing from a row; known only after the query was prepared. */
export const joinsNotNullableMap = (query: AnyPreparedQuery): JoinsNotNullable =>
  (query as unknown as PreparedInternals).joinsNotNullableMap

/** Runs a query behind Drizzle's cache, and wraps what it throws in a DrizzleQueryError. */
export const queryWithCache = <T>(
  query: AnyPreparedQuery,
  sql: string,
  params: readonly unknown[],
  run: () => Promise<T>,
): Promise<T> => (query as unknown as PreparedInternals).queryWithCache(sql, params, run)

/** Prepares a query builder for a batch; null for what is none. */
export function prepareBuilder(query: unknown): Runnable | null {
  const builder = query as { _prepare?: () => Runnable } | null
  return typeof builder?._prepare === 'function' ? builder._prepare() : null
}
