import {
  entityKind,
  type Logger,
  type Query,
  type RelationalSchemaConfig,
  type SQL,
  type TablesRelationalConfig,
} from 'drizzle-orm'
import type { Cache } from 'drizzle-orm/cache/core'
import type { WithCacheConfig } from 'drizzle-orm/cache/core/types'
// not from the main entry, because 0.44.0 to 0.44.3 export it only here
import { DrizzleQueryError } from 'drizzle-orm/errors'
import {
  type SQLiteAsyncDialect,
  type SQLiteExecuteMethod,
  SQLiteSession,
  type SQLiteTransactionConfig,
} from 'drizzle-orm/sqlite-core'
import type { SelectedFieldsOrdered } from 'drizzle-orm/sqlite-core/query-builders/select.types'
import { type BatchMethod, batchMethod } from './batch.ts'
import { BatonPreparedQuery, type QueryMetadata, type RelationMapper } from './prepared-query.ts'
import type { ArrayResult, QueryRunner } from './query-runner.ts'
import { objectRows, type RunResult, runResult } from './results.ts'
import { BatonTransaction } from './transaction.ts'

/** Settings that a database shares with its transactions. */
export interface SessionContext<TSchema extends TablesRelationalConfig> {
  readonly dialect: SQLiteAsyncDialect
  readonly schema: RelationalSchemaConfig<TSchema> | undefined
  readonly logger: Logger
  readonly cache: Cache | undefined
}

/** Runs queries on a client, or inside a transaction. */
export class BatonSession<
  TFullSchema extends Record<string, unknown>,
  TSchema extends TablesRelationalConfig,
> extends SQLiteSession<'async', RunResult, TFullSchema, TSchema> {
  static override readonly [entityKind]: string = 'BatonSession'
  /** Runs queries in one request: as a transaction, or as part of the transaction of this session. */
  readonly batch: BatchMethod
  /** @internal */
  readonly runner: QueryRunner
  readonly #context: SessionContext<TSchema>

  /** @internal */
  constructor(runner: QueryRunner, context: SessionContext<TSchema>) {
    super(context.dialect)
    this.runner = runner
    this.#context = context
    this.batch = batchMethod(
      runner,
      context.logger,
      (sql, params, error) => new DrizzleQueryError(sql, params, error),
    )
  }

  // Drizzle determines the parameters
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
    const { logger, cache } = this.#context
    return new BatonPreparedQuery({
      query,
      executeMethod,
      fields,
      relationMapper,
      metadata,
      cacheConfig,
      // a transaction may read its own uncommitted changes
      cache: this.runner.isTransaction ? undefined : cache,
      logger,
      runner: this.runner,
    })
  }

  /** Begins a transaction or, inside one, a savepoint, for which `behavior` is ignored. */
  override transaction<T>(
    callback: (tx: BatonTransaction<TFullSchema, TSchema>) => Promise<T>,
    { behavior }: SQLiteTransactionConfig = {},
  ): Promise<T> {
    return this.runner.transaction((runner) => callback(this.toTransaction(runner)), behavior)
  }

  /**
   * Returns a transaction whose queries run on a runner.
   * @internal
   */
  toTransaction(runner: QueryRunner): BatonTransaction<TFullSchema, TSchema> {
    const { dialect, schema } = this.#context
    const session = new BatonSession<TFullSchema, TSchema>(runner, this.#context)
    return new BatonTransaction(session.batch, 'async', dialect, session, schema)
  }

  /** Runs `select count(*)`. */
  override async count(query: SQL): Promise<number> {
    const [[count]] = (await this.values(query)) as [[number | bigint]]
    return Number(count)
  }

  // Drizzle calls these methods to read the results of raw queries in a batch.
  readonly extractRawRunValueFromBatchResult = runResult
  readonly extractRawAllValueFromBatchResult = objectRows
  readonly extractRawGetValueFromBatchResult = (result: ArrayResult): unknown => objectRows(result)[0]
  readonly extractRawValuesValueFromBatchResult = ({ rows }: ArrayResult): unknown => rows
}
