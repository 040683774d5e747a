import { Column, is, SQL } from 'drizzle-orm'
import * as utils from 'drizzle-orm/utils'
import type { ArrayResult } from './query-runner.ts'

// Everything of Drizzle's that a driver needs and that its type declarations leave out is touched here and nowhere else.

/** What `db.batch` calls on the things it is given. */
export interface Runnable {
  getQuery(): { readonly sql: string; readonly params: unknown[] }
  mapResult(result: ArrayResult, isFromBatch: boolean): unknown
  /** Tables that it changes; SQL written by hand does not tell. */
  readonly changes?: readonly string[]
}

/** Prepares a query builder for a batch; null for what is none. */
export function prepareBuilder(query: unknown): Runnable | null {
  const builder = query as { _prepare?: () => Runnable } | null
  return typeof builder?._prepare === 'function' ? builder._prepare() : null
}

/** The column that reads a value of a result; null when none does. */
export function columnOf(field: unknown): Column | null {
  const expression = is(field, SQL.Aliased) ? field.sql : field
  const decoder = is(expression, SQL) ? (expression as unknown as { decoder: unknown }).decoder : expression
  return is(decoder, Column) ? decoder : null
}

interface ColumnInternals {
  readonly table: Record<symbol, string>
  readonly codec?: string
}

/** Table and column by their names in the database, also when a query gave them others. */
export function qualifiedNameOf(column: Column): string {
  const table = (column as unknown as ColumnInternals).table[Symbol.for('drizzle:OriginalName')]
  return table === undefined ? column.name : `${table}.${column.name}`
}

/** Which of the dialect's codecs reads the column. */
export const codecNameOf = (column: Column): string => (column as unknown as ColumnInternals).codec ?? 'none'

type JoinsNotNullable = Record<string, boolean> | undefined

interface UtilsInternals {
  /** Turns a row of values into the object a query asked for; only before 1.0. */
  readonly mapResultRow: (fields: readonly object[], row: unknown[], joins: JoinsNotNullable) => unknown
  /** Whether rows can be mapped by generated code here; says on the console why not, when it was asked for. Only in 1.0. */
  readonly jitCompatCheck: (isEnabled: boolean | undefined) => boolean
}

export const { mapResultRow, jitCompatCheck } = utils as unknown as UtilsInternals

// Only before 1.0

interface PreparedInternals {
  readonly joinsNotNullableMap: JoinsNotNullable
  queryWithCache<T>(sql: string, params: readonly unknown[], run: () => Promise<T>): Promise<T>
}

/** Which joined tables can't be missing from a row; known only after the query was prepared. */
export const joinsNotNullableMap = (query: object): JoinsNotNullable =>
  (query as PreparedInternals).joinsNotNullableMap

/** Runs a query behind Drizzle's cache, and wraps what it throws in a DrizzleQueryError. */
export const queryWithCache = <T>(
  query: object,
  sql: string,
  params: readonly unknown[],
  run: () => Promise<T>,
): Promise<T> => (query as PreparedInternals).queryWithCache(sql, params, run)
