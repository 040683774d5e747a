import type { ArrayRow } from '@batonsql/core'
import { entityKind, fillPlaceholders, type Query } from 'drizzle-orm'
import type { Cache } from 'drizzle-orm/cache/core'
import type { WithCacheConfig } from 'drizzle-orm/cache/core/types'
import {
  type PreparedQueryConfig,
  type SQLiteExecuteMethod,
  SQLitePreparedQuery,
} from 'drizzle-orm/sqlite-core'
import type { SelectedFieldsOrdered } from 'drizzle-orm/sqlite-core/query-builders/select.types'
import { joinsNotNullableMap, queryWithCache } from './internals.ts'
import type { ArrayResult } from './query-runner.ts'
import { mapRow, narrowRelated } from './row-mapping.ts'
import { objectRows, runResult } from './values.ts'

/** Which tables a query reads or changes. */
export interface QueryMetadata {
  type: 'select' | 'update' | 'delete' | 'insert'
  tables: string[]
}

export type RelationMapper = (rows: unknown[][], mapColumnValue?: (value: unknown) => unknown) => unknown

/** What a session knows of a query it prepares. */
export interface QueryPlan {
  readonly query: Query
  readonly executeMethod: SQLiteExecuteMethod
  /** What the columns of the result are; undefined for SQL written by hand and for relational queries. */
  readonly fields: SelectedFieldsOrdered | undefined
  /** Reads the result of a relational query. */
  readonly relationMapper: RelationMapper | undefined
  readonly metadata: QueryMetadata | undefined
  readonly cacheConfig: WithCacheConfig | undefined
  readonly cache: Cache | undefined
  readonly log: (sql: string, params: unknown[]) => void
  readonly execute: (sql: string, params: unknown[]) => Promise<ArrayResult>
}

/** A query ready to run, any number of times. */
export class BatonPreparedQuery extends SQLitePreparedQuery<PreparedQueryConfig & { type: 'async' }> {
  static override readonly [entityKind]: string = 'BatonPreparedQuery'
  readonly #plan: QueryPlan

  constructor(plan: QueryPlan) {
    super('async', plan.executeMethod, plan.query, plan.cache, plan.metadata, plan.cacheConfig)
    this.#plan = plan
  }

  get metadata(): QueryMetadata | undefined {
    return this.#plan.metadata
  }

  override run(placeholders?: Record<string, unknown>): Promise<unknown> {
    return this.#fetch(placeholders, runResult)
  }

  override async all(placeholders?: Record<string, unknown>): Promise<unknown> {
    if (this.#isRaw) return await this.#fetch(placeholders, objectRows)
    return this.#mapAll(await this.values(placeholders))
  }

  override async get(placeholders?: Record<string, unknown>): Promise<unknown> {
    if (this.#isRaw) return (await this.#fetch(placeholders, objectRows))[0]
    return this.#mapFirst(await this.values(placeholders))
  }

  /** Rows as arrays, as they come: nothing is decoded. */
  override values(placeholders?: Record<string, unknown>): Promise<ArrayRow[]> {
    return this.#fetch(placeholders, ({ rows }) => rows)
  }

  // The mappers below serve batches, where all results come in at once.

  override mapRunResult(result: ArrayResult): unknown {
    return runResult(result)
  }

  override mapAllResult(result: ArrayResult): unknown {
    return this.#isRaw ? objectRows(result) : this.#mapAll(result.rows)
  }

  override mapGetResult(result: ArrayResult): unknown {
    return this.#isRaw ? objectRows(result)[0] : this.#mapFirst(result.rows)
  }

  get #isRaw(): boolean {
    return this.#plan.fields === undefined && this.#plan.relationMapper === undefined
  }

  #fetch<T>(placeholders: Record<string, unknown> = {}, read: (result: ArrayResult) => T): Promise<T> {
    const { query, log, execute } = this.#plan
    const params = fillPlaceholders(query.params, placeholders)
    log(query.sql, params)
    return queryWithCache(this, query.sql, params, async () => read(await execute(query.sql, params)))
  }

  #mapAll(rows: ArrayRow[]): unknown {
    const { fields, relationMapper } = this.#plan
    if (relationMapper) return relationMapper(rows, narrowRelated)
    const joins = joinsNotNullableMap(this)
    return rows.map((row) => mapRow(fields as SelectedFieldsOrdered, row, joins))
  }

  #mapFirst(rows: ArrayRow[]): unknown {
    const { fields, relationMapper } = this.#plan
    const [row] = rows
    if (!row) return undefined
    if (relationMapper) return relationMapper(rows, narrowRelated)
    return mapRow(fields as SelectedFieldsOrdered, row, joinsNotNullableMap(this))
  }
}
