import type { SQLiteExecuteMethod, SQLitePreparedQuery } from 'drizzle-orm/sqlite-core'
import * as utils from 'drizzle-orm/utils'

// Everything of Drizzle's that a driver needs and that its type declarations leave out is touched here and nowhere else.

interface PreparedInternals {
  readonly executeMethod: SQLiteExecuteMethod
  readonly mapper: ((rows: unknown[]) => unknown) | undefined
}

/** How a prepared query is run, and what makes of its rows what the query asked for. */
export const internalsOf = (query: SQLitePreparedQuery): PreparedInternals =>
  query as unknown as PreparedInternals

/** Prepares a query builder for a batch; null for what is none. */
export function prepareBuilder(query: unknown): SQLitePreparedQuery | null {
  const builder = query as { _prepare?: () => SQLitePreparedQuery } | null
  return typeof builder?._prepare === 'function' ? builder._prepare() : null
}

/** Whether rows can be mapped by generated code here; says on the console why not, when it was asked for. */
export const jitCompatCheck = (
  utils as unknown as { jitCompatCheck: (isEnabled: boolean | undefined) => boolean }
).jitCompatCheck
