import type { ArrayRow, Client, ResultSet, Transaction } from '@batonsql/core'
import { DrizzleQueryError, entityKind, type Query, type SQL, type TablesRelationalConfig } from 'drizzle-orm'
import type { WithCacheConfig } from 'drizzle-orm/cache/core/types'
import {
  type SQLiteExecuteMethod,
  SQLiteSession,
  type SQLiteTransactionConfig,
} from 'drizzle-orm/sqlite-core'
import type { SelectedFieldsOrdered } from 'drizzle-orm/sqlite-core/query-builders/select.types'
import { type BatchQuery, type PreparedBatchQuery, prepareBatch } from './batch.ts'
import { BatonPreparedQuery, type QueryMetadata, type RelationMapper } from './prepared-query.ts'
import type { SessionContext } from './session-context.ts'
import { BatonTransaction } from './transaction.ts'
import { objectRows, type RunResult, runResult, toParam } from './values.ts'

type ArrayResult = ResultSet<ArrayRow>

// SQLite in WAL mode, which the server uses, knows no difference between exclusive and immediate.
const MODES = { deferred: 'deferred', immediate: 'immediate', exclusive: 'immediate' } as const

/** Runs queries on a client, or inside a transaction when it was made for one. */
export class BatonSession<
  TFullSchema extends Record<string, unknown>,
  TSchema extends TablesRelationalConfig,
> extends SQLiteSession<'async', RunResult, TFullSchema, TSchema> {
  static override readonly [entityKind]: string = 'BatonSession'
  readonly #executor: Client | Transaction
  readonly #context: SessionContext<TSchema>
  /** Tables changed by the transaction, for the cache to forget when it is over; null outside. */
  readonly #changedTables: Set<string> | null

  constructor(
    executor: Client | Transaction,
    context: SessionContext<TSchema>,
    changedTables: Set<string> | null = null,
  ) {
    super(context.dialect)
    this.#executor = executor
    this.#context = context
    this.#changedTables = changedTables
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
      cache: this.#changedTables ? undefined : this.#context.cache,
      log: (sql, params) => this.#context.logger.logQuery(sql, params),
      execute: async (sql, params) => {
        const result = await this.#executor.execute(sql, params.map(toParam), { rowMode: 'array' })
        for (const table of tablesChangedBy(metadata)) this.#changedTables?.add(table)
        return result
      },
    })
  }

  /** Runs queries in one request: all of them take effect, or none. */
  async batch(queries: readonly BatchQuery[]): Promise<unknown[]> {
    const prepared = prepareBatch(queries)
    for (const { sql, params } of prepared) this.#context.logger.logQuery(sql, params)
    const results = await this.#runBatch(prepared)
    const changed = prepared.flatMap(({ metadata }) => tablesChangedBy(metadata))
    if (this.#changedTables) for (const table of changed) this.#changedTables.add(table)
    else await this.#forget(changed)
    return results.map((result, at) => prepared[at]?.map(result))
  }

  async #runBatch(prepared: readonly PreparedBatchQuery[]): Promise<ArrayResult[]> {
    const statements = prepared.map(({ sql, params }) => ({ sql, args: params.map(toParam) }))
    try {
      return await this.#executor.batch(statements, { rowMode: 'array' })
    } catch (error) {
      const { statementIndex } = error as { readonly statementIndex?: number | null }
      const failed = prepared[statementIndex ?? -1]
      const sql = failed?.sql ?? prepared.map((query) => query.sql).join(';\n')
      throw new DrizzleQueryError(sql, failed?.params ?? [], error as Error)
    }
  }

  /** Begins a transaction or, inside one, a savepoint, to which `behavior` means nothing. */
  override async transaction<T>(
    callback: (tx: BatonTransaction<TFullSchema, TSchema>) => Promise<T>,
    { behavior = 'immediate' }: SQLiteTransactionConfig = {},
  ): Promise<T> {
    const executor = this.#executor
    const changed = this.#changedTables ?? new Set<string>()
    const run = (transaction: Transaction): Promise<T> => {
      const session = new BatonSession<TFullSchema, TSchema>(transaction, this.#context, changed)
      return callback(new BatonTransaction(session, this.#context))
    }
    if ('savepoint' in executor) return await executor.savepoint(run)
    const result = await executor.transaction(run, { mode: MODES[behavior] })
    await this.#forget([...changed])
    return result
  }

  async #forget(tables: string[]): Promise<void> {
    if (tables.length > 0) await this.#context.cache?.onMutate({ tables })
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
