import { fillPlaceholders } from 'drizzle-orm'
import type { BatchItem } from 'drizzle-orm/batch'
import type { RunnableQuery } from 'drizzle-orm/runnable-query'
import {
  type SQLiteAsyncPreparedQuery,
  type SQLiteAsyncPreparedQueryConfig,
  SQLitePreparedQuery,
} from 'drizzle-orm/sqlite-core'
import type { ArrayResult, RunnableSql } from '../query-runner.ts'
import { objectRows, runResult } from '../values.ts'
import { internalsOf, prepareBuilder } from './internals.ts'
import { BatonPreparedQuery, tablesChangedBy } from './prepared-query.ts'

type AnyPreparedQuery = SQLiteAsyncPreparedQuery<SQLiteAsyncPreparedQueryConfig>

/** What can be in a batch: a query builder, raw SQL (`db.run(sql)`), a prepared query, or one that `bind()` gave its values. */
export type BatchQuery = BatchItem<'sqlite'> | AnyPreparedQuery

type BatchResult<Q> = Q extends { readonly _: { readonly result: infer R } }
  ? R
  : Q extends SQLiteAsyncPreparedQuery<infer C>
    ? C['execute']
    : never

/** Results of a batch, in the order of its queries. */
export type BatchResults<T extends readonly BatchQuery[]> = { -readonly [K in keyof T]: BatchResult<T[K]> }

/** Runs queries as one transaction in one request. */
export type BatchMethod = <const T extends readonly BatchQuery[] | []>(queries: T) => Promise<BatchResults<T>>

/** A prepared query with the values of its placeholders. */
class BoundQuery<R> implements RunnableQuery<R, 'sqlite'> {
  declare readonly _: { readonly dialect: 'sqlite'; readonly result: R }
  readonly query: AnyPreparedQuery
  readonly values: Record<string, unknown>

  constructor(query: AnyPreparedQuery, values: Record<string, unknown>) {
    this.query = query
    this.values = values
  }
}

/**
 * Gives a prepared query the values of its placeholders, for `db.batch`.
 *
 * ```ts
 * await db.batch(ids.map((id) => bind(byId, { id })))
 * ```
 */
export function bind<Q extends AnyPreparedQuery>(
  query: Q,
  values: Record<string, unknown>,
): RunnableQuery<BatchResult<Q>, 'sqlite'> {
  return new BoundQuery<BatchResult<Q>>(query, values)
}

/** One query of a batch: what is sent, and how its result is read. */
export interface PreparedBatchQuery extends RunnableSql {
  map(result: ArrayResult): unknown
}

/** @throws TypeError when something else than a query is among them */
export function prepareBatch(queries: readonly BatchQuery[]): PreparedBatchQuery[] {
  if (!Array.isArray(queries)) throw new TypeError('expected an array of queries')
  return queries.map((query: BatchQuery, at) => {
    const [runnable, values] = query instanceof BoundQuery ? [query.query, query.values] : [query, {}]
    const prepared = runnable instanceof SQLitePreparedQuery ? runnable : prepareBuilder(runnable)
    if (prepared === null)
      throw new TypeError(`query ${at} of the batch is neither a query builder nor prepared`)
    const { sql, params } = prepared.getQuery()
    return {
      sql,
      params: fillPlaceholders(params, values),
      changes: prepared instanceof BatonPreparedQuery ? tablesChangedBy(prepared.metadata) : [],
      map: (result) => mapResult(prepared, result),
    }
  })
}

/** Does what the prepared query itself does with the result when it is not in a batch. */
function mapResult(prepared: SQLitePreparedQuery, result: ArrayResult): unknown {
  const { executeMethod, mapper } = internalsOf(prepared)
  if (executeMethod === 'run') return runResult(result)
  if (executeMethod === 'values') return result.rows
  const rows: unknown[] = prepared.mode === 'arrays' ? result.rows : objectRows(result)
  if (executeMethod === 'all') return mapper ? mapper(rows) : rows
  if (rows.length === 0) return undefined
  return mapper ? (mapper(rows.slice(0, 1)) as unknown[])[0] : rows[0]
}
