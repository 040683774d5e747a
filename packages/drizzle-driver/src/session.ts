import { entityKind, type Query, type SQL, type TablesRelationalConfig } from 'drizzle-orm'
import type { WithCacheConfig } from 'drizzle-orm/cache/core/types'
// 0.44.0 to 0.44.3 do not export it from where the others do
import { DrizzleQueryError } from 'drizzle-orm/errors'
import {
  type SQLiteExecuteMethod,
  SQLiteSession,
  type SQLiteTransactionConfig,
} from 'drizzle-orm/sqlite-core'
import type { SelectedFieldsOrdered } from 'drizzle-orm/sqlite-core/query-builders/select.types'
import { type BatchQuery, prepareBatch } from './batch.ts'
import { BatonPreparedQuery, type QueryMetadata, type RelationMapper } from './prepared-query.ts'
import type { ArrayResult, QueryRunner } from './query-runner.ts'
import type { SessionContext } from './session-context.ts'
import { BatonTransaction } from './transaction.ts'
import { objectRows, type RunResult, runResult } from './values.ts'

/** Runs queries on a client, or inside a transaction when it was made for one. */
export class BatonSession<
  TFullSchema extends Record<string, unknown>,
  TSchema extends TablesRelationalConfig,
> extends SQLiteSession<'async', RunResult, TFullSchema, TSchema> {
  static override readonly [entityKind]: string = 'BatonSession'
  readonly #runner: QueryRunner
  readonly #context: SessionContext<TSchema>

  constructor(runner: QueryRunner, context: SessionContext<TSchema>) {
    super(context.dialect)
    this.#runner = runner
    this.#context = context
  }

  // the parameters are Drizzle's
  // oxlint-disable-next-line max-params
  override prepareQuery(
    query: Query,
    fields: SelectedFieldsOrdered | undefined,
    executeMethod: SQLiteExecuteMethod,
    _isResponseInArrayMode: boolean,
    relationMapper?: RelationMapper,
    metadata?: QueryMetadata,
    cacheConfig?: WithCacheConfig,
  ): BatonPreparedQuery {
    return new BatonPreparedQuery({
      query,
      executeMethod,
      fields,
      relationMapper,
      metadata,
      cacheConfig,
      // what a transaction reads may be its own changes, which are not committed yet
      cache: this.#runner.isTransaction ? undefined : this.#context.cache,
      log: (sql, params) => this.#context.logger.logQuery(sql, params),
      execute: (sql, params) => this.#runner.execute({ sql, params, changes: tablesChangedBy(metadata) }),
    })
  }

  /** Runs queries in one request: all of them take effect, or none. */
  async batch(queries: readonly BatchQuery[]): Promise<unknown[]> {
    const prepared = prepareBatch(queries).map((query) => ({
      ...query,
      changes: tablesChangedBy(query.metadata),
    }))
    for (const { sql, params } of prepared) this.#context.logger.logQuery(sql, params)
    const results = await this.#runner.batch(
      prepared,
      (sql, params, error) => new DrizzleQueryError(sql, params, error),
    )
    return results.map((result, at) => prepared[at]?.map(result))
  }

  /** Begins a transaction or, inside one, a savepoint, to which `behavior` means nothing. */
  override transaction<T>(
    callback: (tx: BatonTransaction<TFullSchema, TSchema>) => Promise<T>,
    { behavior }: SQLiteTransactionConfig = {},
  ): Promise<T> {
    const run = (runner: QueryRunner): Promise<T> => {
      const session = new BatonSession<TFullSchema, TSchema>(runner, this.#context)
      return callback(new BatonTransaction(session, this.#context))
    }
    return this.#runner.transaction(run, behavior)
  }

  /** Runs `select count(*)`. */
  override async count(query: SQL): Promise<number> {
    const [[count]] = (await this.values(query)) as [[number | bigint]]
    return Number(count)
  }

  // Drizzle reads the results of raw queries in a batch through these.

  extractRawRunValueFromBatchResult(result: ArrayResult): unknown {
    return runResult(result)
  }

  extractRawAllValueFromBatchResult(result: ArrayResult): unknown {
    return objectRows(result)
  }

  extractRawGetValueFromBatchResult(result: ArrayResult): unknown {
    return objectRows(result)[0]
  }

  extractRawValuesValueFromBatchResult(result: ArrayResult): unknown {
    return result.rows
  }
}

const tablesChangedBy = (metadata: QueryMetadata | undefined): string[] =>
  metadata && metadata.type !== 'select' ? metadata.tables : []
