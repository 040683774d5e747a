import type { ArrayRow } from '@batonsql/core'
import { entityKind, fillPlaceholders, type Logger, type Query } from 'drizzle-orm'
import type { Cache } from 'drizzle-orm/cache/core'
import type { WithCacheConfig } from 'drizzle-orm/cache/core/types'
import {
  type PreparedQueryConfig,
  type SQLiteExecuteMethod,
  SQLitePreparedQuery,
} from 'drizzle-orm/sqlite-core'
import type { SelectedFieldsOrdered } from 'drizzle-orm/sqlite-core/query-builders/select.types'
import { withExactDecoder } from './exact-decoder.ts'
import { joinsNotNullableMap, mapResultRow, queryWithCache } from './internals.ts'
import { NestedRows } from './nested-rows.ts'
import type { ArrayResult, QueryRunner } from './query-runner.ts'
import { objectRows, runResult } from './results.ts'

/** The tables that a query reads or changes. */
export interface QueryMetadata {
  type: 'select' | 'update' | 'delete' | 'insert'
  tables: string[]
}

export type RelationMapper = (rows: unknown[][], mapColumnValue?: (value: unknown) => unknown) => unknown

/** Everything needed to prepare a query. */
export interface QueryPlan {
  readonly query: Query
  readonly executeMethod: SQLiteExecuteMethod
  /** The columns of the result; undefined for raw SQL and relational queries. */
  readonly fields: SelectedFieldsOrdered | undefined
  /** Maps the result of a relational query. */
  readonly relationMapper: RelationMapper | undefined
  readonly metadata: QueryMetadata | undefined
  readonly cacheConfig: WithCacheConfig | undefined
  readonly cache: Cache | undefined
  readonly logger: Logger
  readonly runner: QueryRunner
}

/** A prepared query, which can be run any number of times. */
export class BatonPreparedQuery extends SQLitePreparedQuery<PreparedQueryConfig & { type: 'async' }> {
  static override readonly [entityKind]: string = 'BatonPreparedQuery'
  readonly #plan: QueryPlan
  readonly #fields: SelectedFieldsOrdered | undefined
  /** Tables that the query changes. */
  readonly changedTables: readonly string[]

  /** @internal */
  constructor(plan: QueryPlan) {
    const { executeMethod, query, cache, metadata, cacheConfig } = plan
    super('async', executeMethod, query, cache, metadata, cacheConfig)
    this.#plan = plan
    this.#fields = plan.fields?.map(({ path, field }) => ({ path, field: withExactDecoder(field) }))
    this.changedTables = metadata && metadata.type !== 'select' ? metadata.tables : []
  }

  override async run(placeholders?: Record<string, unknown>): Promise<unknown> {
    return await this.#fetch(placeholders, runResult)
  }

  override async all(placeholders?: Record<string, unknown>): Promise<unknown> {
    return this.#mapAll(await this.#fetch(placeholders, this.#toCachedRows))
  }

  override async get(placeholders?: Record<string, unknown>): Promise<unknown> {
    return this.#mapFirst(await this.#fetch(placeholders, this.#toCachedRows))
  }

  /** Returns rows as arrays, without decoding. */
  override async values(placeholders?: Record<string, unknown>): Promise<ArrayRow[]> {
    return await this.#fetch(placeholders, ({ rows }) => rows)
  }

  // The mappers below are used by batches.

  override mapRunResult(result: ArrayResult): unknown {
    return runResult(result)
  }

  override mapAllResult(result: ArrayResult): unknown {
    return this.#mapAll(this.#toCachedRows(result))
  }

  override mapGetResult(result: ArrayResult): unknown {
    return this.#mapFirst(this.#toCachedRows(result))
  }

  #fetch<T>(placeholders: Record<string, unknown> = {}, read: (result: ArrayResult) => T): Promise<T> {
    const { query, logger, runner } = this.#plan
    const params = fillPlaceholders(query.params, placeholders)
    logger.logQuery(query.sql, params)
    const statement = { sql: query.sql, params, changedTables: this.changedTables }
    return queryWithCache(this, query.sql, params, async () => read(await runner.execute(statement)))
  }

  /** Returns the rows as Drizzle's cache stores them: objects for raw SQL, otherwise arrays that are mapped later. */
  #toCachedRows = (result: ArrayResult): unknown[] => {
    const { fields, relationMapper } = this.#plan
    return fields || relationMapper ? result.rows : objectRows(result)
  }

  #mapAll(rows: unknown[]): unknown {
    const { relationMapper } = this.#plan
    const fields = this.#fields
    if (relationMapper) {
      const nested = new NestedRows()
      return relationMapper(
        rows.map((row) => (row as ArrayRow).map(nested.read)),
        nested.toColumnValue,
      )
    }
    if (!fields) return rows
    const joins = joinsNotNullableMap(this)
    return rows.map((row) => mapResultRow(fields, row as ArrayRow, joins))
  }

  #mapFirst(rows: unknown[]): unknown {
    if (rows.length === 0) return undefined
    const mapped = this.#mapAll(rows.slice(0, 1))
    // the mapper of a relational query itself returns a single row, unless the query is `findMany`, whose rows it returns
    return this.#plan.relationMapper ? mapped : (mapped as unknown[])[0]
  }
}
