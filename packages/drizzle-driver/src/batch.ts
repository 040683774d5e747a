import { checkOptions } from '@batonsql/core/adapter'
import { fillPlaceholders, is, type Logger } from 'drizzle-orm'
import type { BatchItem } from 'drizzle-orm/batch'
import type { RunnableQuery } from 'drizzle-orm/runnable-query'
import { SQLitePreparedQuery } from 'drizzle-orm/sqlite-core'
import { prepareBuilder, type Runnable } from './internals.ts'
import type { ArrayResult, QueryRunner, RunnableSql, TransactionBehavior, WrapError } from './query-runner.ts'

// Shared by all Drizzle versions.

/** A query made by `prepare()`. */
interface PreparedQuery {
  getQuery(): { sql: string; params: unknown[] }
  execute(values?: Record<string, unknown>): unknown
}

/** An item of a batch: a query builder, raw SQL (`db.run(sql)`), a prepared query, or one with values from `bind()`. */
export type BatchQuery = BatchItem<'sqlite'> | PreparedQuery

type BatchResult<Q> = Q extends { readonly _: { readonly result: infer R } }
  ? R
  : Q extends { execute(values?: Record<string, unknown>): Promise<infer R> }
    ? R
    : never

/** Results of a batch, in the order of its queries. */
export type BatchResults<T extends readonly BatchQuery[]> = { -readonly [K in keyof T]: BatchResult<T[K]> }

/** Settings of a batch. */
export interface BatchConfig {
  /**
   * How the transaction of the batch begins; ignored inside a transaction.
   * @default 'immediate', or 'deferred' if every query is known to be read-only
   */
  readonly behavior?: TransactionBehavior | undefined
}

/**
 * Runs queries in one request. All of them are applied, or none; inside a transaction, those before the failed query remain until the
 * transaction ends.
 */
export type BatchMethod = <const T extends readonly BatchQuery[] | []>(
  queries: T,
  config?: BatchConfig,
) => Promise<BatchResults<T>>

/** A prepared query with the values of its placeholders. */
class BoundQuery<R> implements RunnableQuery<R, 'sqlite'> {
  declare readonly _: { readonly dialect: 'sqlite'; readonly result: R }
  readonly query: PreparedQuery
  readonly values: Record<string, unknown>

  constructor(query: PreparedQuery, values: Record<string, unknown>) {
    this.query = query
    this.values = values
  }
}

/**
 * Binds the placeholders of a prepared query to values, for `db.batch`.
 *
 * ```ts
 * await db.batch(ids.map((id) => bind(byId, { id })))
 * ```
 */
export function bind<Q extends PreparedQuery>(
  query: Q,
  values: Record<string, unknown>,
): RunnableQuery<BatchResult<Q>, 'sqlite'> {
  return new BoundQuery<BatchResult<Q>>(query, values)
}

/** A prepared query of a batch, which maps its own result. */
interface BatchItemQuery extends RunnableSql {
  map(result: ArrayResult): unknown
}

/** Prepares the queries of a batch. @throws TypeError if an item is not a query */
function prepareBatch(queries: readonly BatchQuery[]): BatchItemQuery[] {
  if (!Array.isArray(queries)) throw new TypeError('expected an array of queries')
  return queries.map((query: BatchQuery, index) => {
    const [runnable, values] = query instanceof BoundQuery ? [query.query, query.values] : [query, {}]
    const prepared = is(runnable, SQLitePreparedQuery)
      ? (runnable as unknown as Runnable)
      : prepareBuilder(runnable)
    if (prepared === null)
      throw new TypeError(`query ${index} of the batch is neither a query builder nor prepared`)
    const { sql, params } = prepared.getQuery()
    return {
      sql,
      params: fillPlaceholders(params, values),
      changedTables: prepared.changedTables ?? [],
      map: (result) => prepared.mapResult(result, true),
    }
  })
}

/**
 * Returns the `batch` method of a database or a transaction.
 * @param wrap turns the client's error into Drizzle's
 */
export const batchMethod = (runner: QueryRunner, logger: Logger, wrap: WrapError): BatchMethod =>
  (async (queries: readonly BatchQuery[], config: BatchConfig = {}) => {
    checkOptions(config, { behavior: 'string' })
    const prepared = prepareBatch(queries)
    for (const { sql, params } of prepared) logger.logQuery(sql, [...params])
    const results = await runner.batch(prepared, wrap, config.behavior)
    return results.map((result, index) => prepared[index]?.map(result))
  }) as BatchMethod
