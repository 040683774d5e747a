import { entityKind, type TablesRelationalConfig } from 'drizzle-orm'
import type { SQLiteTransaction as SQLiteTransactionType } from 'drizzle-orm/sqlite-core'
import type { BatchMethod } from './batch.ts'
import { SQLiteTransaction } from './drizzle-0.ts'
import type { RunResult } from './results.ts'

/** A transaction, or a savepoint inside one, which its own `transaction()` creates. */
export class BatonTransaction<
  TFullSchema extends Record<string, unknown>,
  TSchema extends TablesRelationalConfig,
> extends SQLiteTransaction<'async', RunResult, TFullSchema, TSchema> {
  static override readonly [entityKind]: string = 'BatonTransaction'

  /**
   * Runs queries in one request and stops at the first failure. Earlier changes remain in the transaction: let the error leave
   * the callback, or use a nested transaction.
   */
  readonly batch: BatchMethod

  /** @internal */
  constructor(
    batch: BatchMethod,
    ...rest: ConstructorParameters<typeof SQLiteTransaction<'async', RunResult, TFullSchema, TSchema>>
  ) {
    super(...rest)
    this.batch = batch
  }

  /** Runs a callback in a savepoint, which is undone if it fails. Takes no extra requests; savepoints run one at a time. */
  override transaction<T>(callback: (tx: BatonTransaction<TFullSchema, TSchema>) => Promise<T>): Promise<T> {
    return super.transaction(
      callback as (tx: SQLiteTransactionType<'async', RunResult, TFullSchema, TSchema>) => Promise<T>,
    )
  }
}
