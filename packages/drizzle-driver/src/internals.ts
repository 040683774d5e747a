import { Column, is, SQL, Subquery } from 'drizzle-orm'
import * as utils from 'drizzle-orm/utils'
import type { ArrayResult } from './query-runner.ts'

// The only file that uses members of Drizzle that a driver needs but the type declarations omit.

/** The methods that `db.batch` calls on its items. */
export interface Runnable {
  getQuery(): { readonly sql: string; readonly params: unknown[] }
  mapResult(result: ArrayResult, isFromBatch: boolean): unknown
  /** Tables that it changes; unknown for raw SQL. */
  readonly changedTables?: readonly string[]
}

/** Returns the session of a database. */
export const sessionOf = <Session>(db: object): Session => (db as { readonly session: Session }).session

/** Prepares a query builder for a batch; null for anything else. */
export function prepareBuilder(query: unknown): Runnable | null {
  const builder = query as { _prepare?: () => Runnable } | null
  return typeof builder?._prepare === 'function' ? builder._prepare() : null
}

/** Returns the column that decodes a value of a result; null if none does. */
export function findColumn(field: unknown): Column | null {
  if (is(field, Subquery)) {
    const [selected, ...others] = Object.values(field._.selectedFields)
    return others.length === 0 ? findColumn(selected) : null
  }
  const expression = is(field, SQL.Aliased) ? field.sql : field
  const decoder = is(expression, SQL) ? (expression as unknown as { decoder: unknown }).decoder : expression
  return is(decoder, Column) ? decoder : null
}

interface ColumnInternals {
  readonly table: Record<symbol, string>
  readonly codec?: string
}

/** Returns the database names of table and column, even if a query uses aliases. */
export function qualifiedName(column: Column): string {
  const table = (column as unknown as ColumnInternals).table[Symbol.for('drizzle:OriginalName')]
  return table === undefined ? column.name : `${table}.${column.name}`
}

export const codecName = (column: Column): string => (column as unknown as ColumnInternals).codec ?? 'none'

type JoinsNotNullable = Record<string, boolean> | undefined

interface UtilsInternals {
  /** Maps a row of values to the object that a query selects; only before 1.0. */
  readonly mapResultRow: (
    fields: readonly object[],
    row: readonly unknown[],
    joins: JoinsNotNullable,
  ) => unknown
  /** Whether rows can be mapped by generated code; if this was requested, logs why it is impossible. Only in 1.0. */
  readonly jitCompatCheck: (isEnabled: boolean | undefined) => boolean
}

export const { mapResultRow, jitCompatCheck } = utils as unknown as UtilsInternals

// Only before 1.0

interface PreparedInternals {
  readonly joinsNotNullableMap: JoinsNotNullable
  queryWithCache<T>(sql: string, params: readonly unknown[], run: () => Promise<T>): Promise<T>
}

/** Returns which joined tables cannot be missing from a row; known only after the query was prepared. */
export const joinsNotNullableMap = (query: object): JoinsNotNullable =>
  (query as PreparedInternals).joinsNotNullableMap

/** Runs a query through Drizzle's cache and wraps its errors in a DrizzleQueryError. */
export const queryWithCache = <T>(
  query: object,
  sql: string,
  params: readonly unknown[],
  run: () => Promise<T>,
): Promise<T> => (query as PreparedInternals).queryWithCache(sql, params, run)
