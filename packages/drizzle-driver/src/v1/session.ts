import { type AnyRelations, entityKind, type Logger, type Query } from 'drizzle-orm'
import type { Cache } from 'drizzle-orm/cache/core'
import type { QueryMetadata, WithCacheConfig } from 'drizzle-orm/cache/core/types'
import type { SQLiteDialect, SQLiteExecuteMethod, SQLiteTransactionConfig } from 'drizzle-orm/sqlite-core'
import { type BatchMethod, batchMethod } from '../batch.ts'
import type { QueryRunner } from '../query-runner.ts'
import type { RunResult } from '../results.ts'
import { DrizzleQueryError, SQLiteAsyncSession } from './drizzle-1.ts'
import { BatonPreparedQuery } from './prepared-query.ts'
import { BatonTransaction } from './transaction.ts'

/** Settings that a database shares with its transactions. */
export interface SessionContext<TRelations extends AnyRelations> {
  readonly dialect: SQLiteDialect
  readonly relations: TRelations
  readonly logger: Logger
  readonly cache: Cache | undefined
  /** Whether errors show the parameters. */
  readonly paramsInErrors: boolean | undefined
}

/** Runs queries on a client, or inside a transaction. */
export class BatonSession<TRelations extends AnyRelations> extends SQLiteAsyncSession<
  'async',
  RunResult,
  TRelations
> {
  static override readonly [entityKind]: string = 'BatonSession'
  /** Runs queries in one request: as a transaction, or as part of the transaction of this session. */
  readonly batch: BatchMethod
  /** @internal */
  readonly runner: QueryRunner
  readonly #context: SessionContext<TRelations>

  /** @internal */
  constructor(runner: QueryRunner, context: SessionContext<TRelations>) {
    super(context.dialect, 'async')
    this.runner = runner
    this.#context = context
    this.batch = batchMethod(
      runner,
      context.logger,
      (sql, params, error) => new DrizzleQueryError(sql, context.paramsInErrors ? params : undefined, error),
    )
  }

  // Drizzle determines the parameters
  // oxlint-disable-next-line max-params
  override prepareQuery(
    query: Query,
    mode: 'arrays' | 'objects' | 'raw',
    _prepare: boolean,
    executeMethod?: SQLiteExecuteMethod,
    mapper?: (rows: unknown[]) => unknown,
    metadata?: QueryMetadata,
    cacheConfig?: WithCacheConfig,
  ): BatonPreparedQuery {
    const { logger, cache, paramsInErrors } = this.#context
    return new BatonPreparedQuery({
      query,
      mode,
      executeMethod,
      mapper,
      metadata,
      cacheConfig,
      // a transaction may read its own uncommitted changes
      cache: this.runner.isTransaction ? undefined : cache,
      logger,
      paramsInErrors,
      runner: this.runner,
    })
  }

  /** Begins a transaction or, inside one, a savepoint, for which `behavior` is ignored. */
  override async transaction<T>(
    callback: (tx: BatonTransaction<TRelations>) => Promise<T>,
    { behavior }: SQLiteTransactionConfig = {},
  ): Promise<T> {
    return await this.runner.transaction((runner) => callback(this.toTransaction(runner)), behavior)
  }

  /**
   * Returns a transaction whose queries run on a runner.
   * @internal
   */
  toTransaction(runner: QueryRunner): BatonTransaction<TRelations> {
    const { dialect, relations } = this.#context
    const session = new BatonSession<TRelations>(runner, this.#context)
    return new BatonTransaction(session.batch, 'async', dialect, session, relations)
  }
}
