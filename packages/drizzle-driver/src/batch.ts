import type { ArrayRow, ResultSet } from '@batonsql/core'
import { fillPlaceholders } from 'drizzle-orm'
import type { BatchItem } from 'drizzle-orm/batch'
import type { RunnableQuery } from 'drizzle-orm/runnable-query'
import { type PreparedQueryConfig, SQLitePreparedQuery } from 'drizzle-orm/sqlite-core'
import { prepareBuilder, type Runnable } from './internals.ts'
import { BatonPreparedQuery, type QueryMetadata } from './prepared-query.ts'

type AnyPreparedQuery = SQLitePreparedQuery<PreparedQueryConfig>

/** What can be in a batch: a query builder, raw SQL (`db.run(sql)`), a prepared query, or one that `bind()` gave its values. */
export type BatchQuery = BatchItem<'sqlite'> | AnyPreparedQuery

type BatchResult<Q> = Q extends { readonly _: { readonly result: infer R } }
  ? R
  : Q extends SQLitePreparedQuery<infer C>
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
export interface PreparedBatchQuery {
  readonly sql: string
  readonly params: unknown[]
  readonly metadata: QueryMetadata | undefined
  map(result: ResultSet<ArrayRow>): unknown
}

/** @throws TypeError when something else than a query is among them */
export function prepareBatch(queries: readonly BatchQuery[]): PreparedBatchQuery[] {
  if (!Array.isArray(queries)) throw new TypeError('expected an array of queries')
  return queries.map((query: BatchQuery, at) => {
    const [runnable, values] = query instanceof BoundQuery ? [query.query, query.values] : [query, {}]
    const prepared: Runnable | null =
      runnable instanceof SQLitePreparedQuery ? runnable : prepareBuilder(runnable)
    if (prepared === null)
      throw new TypeError(`query ${at} of the batch is neither a query builder nor prepared`)
    const { sql, params } = prepared.getQuery()
    return {
      sql,
      params: fillPlaceholders(params, values),
      metadata: prepared instanceof BatonPreparedQuery ? prepared.metadata : undefined,
      map: (result) => prepared.mapResult(result, true),
    }
  })
}
