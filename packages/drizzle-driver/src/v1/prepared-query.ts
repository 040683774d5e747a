import { entityKind, type Logger, type Query } from 'drizzle-orm'
import type { Cache } from 'drizzle-orm/cache/core'
import type { QueryMetadata, WithCacheConfig } from 'drizzle-orm/cache/core/types'
import type { SQLiteAsyncPreparedQueryConfig, SQLiteExecuteMethod } from 'drizzle-orm/sqlite-core'
import type { ArrayResult, QueryRunner } from '../query-runner.ts'
import { objectRows, runResult } from '../results.ts'
import { SQLiteAsyncPreparedQuery } from './drizzle-1.ts'

/** Everything needed to prepare a query. */
export interface QueryPlan {
  readonly query: Query
  readonly mode: 'arrays' | 'objects' | 'raw'
  readonly executeMethod: SQLiteExecuteMethod | undefined
  /** Maps rows to the result of the query. */
  readonly mapper: ((rows: unknown[]) => unknown) | undefined
  readonly metadata: QueryMetadata | undefined
  readonly cacheConfig: WithCacheConfig | undefined
  readonly cache: Cache | undefined
  readonly logger: Logger
  readonly paramsInErrors: boolean | undefined
  readonly runner: QueryRunner
}

/** A prepared query, which can be run any number of times. */
export class BatonPreparedQuery extends SQLiteAsyncPreparedQuery<
  SQLiteAsyncPreparedQueryConfig & { type: 'async' }
> {
  static override readonly [entityKind]: string = 'BatonPreparedQuery'
  readonly #plan: QueryPlan
  /** Tables that the query changes. */
  readonly changedTables: readonly string[]

  /** @internal */
  constructor(plan: QueryPlan) {
    const { query, mode, executeMethod, mapper, metadata, cacheConfig, cache, logger, paramsInErrors } = plan
    const changedTables = metadata && metadata.type !== 'select' ? metadata.tables() : []
    const run = (params: unknown[]): Promise<ArrayResult> =>
      plan.runner.execute({ sql: query.sql, params, changedTables })
    const executors = {
      all: async (params: unknown[]) => selectRows(await run(params), mode),
      get: async (params: unknown[]) => selectRows(await run(params), mode)[0],
      run: async (params: unknown[]) => runResult(await run(params)),
    }
    super(
      'async',
      executeMethod,
      executors,
      query,
      mapper,
      mode,
      logger,
      cache,
      metadata,
      cacheConfig,
      paramsInErrors,
    )
    this.#plan = plan
    this.changedTables = changedTables
  }

  /** Maps the query's result in a batch as the query itself does outside of one. */
  mapResult(result: ArrayResult): unknown {
    const { executeMethod = 'all', mapper, mode } = this.#plan
    if (executeMethod === 'run') return runResult(result)
    if (executeMethod === 'values') return result.rows
    const rows = selectRows(result, mode)
    if (executeMethod === 'all') return mapper ? mapper(rows) : rows
    if (rows.length === 0) return undefined
    return mapper ? (mapper(rows.slice(0, 1)) as unknown[])[0] : rows[0]
  }
}

const selectRows = (result: ArrayResult, mode: QueryPlan['mode']): unknown[] =>
  mode === 'arrays' ? result.rows : objectRows(result)
