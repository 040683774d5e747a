import { type AnyRelations, entityKind } from 'drizzle-orm'
import type { SQLiteAsyncTransaction as TransactionType } from 'drizzle-orm/sqlite-core'
import type { BatchMethod } from '../batch.ts'
import type { RunResult } from '../results.ts'
import { SQLiteAsyncTransaction } from './drizzle-1.ts'

/** A transaction, or a savepoint inside one, which its own `transaction()` creates. */
export class BatonTransaction<TRelations extends AnyRelations> extends SQLiteAsyncTransaction<
  'async',
  RunResult,
  TRelations
> {
  static override readonly [entityKind]: string = 'BatonTransaction'

  /**
   * Runs queries in one request and stops at the first failure. Earlier changes remain in the transaction: let the error leave
   * the callback, or use a nested transaction.
   */
  readonly batch: BatchMethod

  /** @internal */
  constructor(
    batch: BatchMethod,
    ...rest: ConstructorParameters<typeof SQLiteAsyncTransaction<'async', RunResult, TRelations>>
  ) {
    super(...rest)
    this.batch = batch
  }

  /** Runs a callback in a savepoint, which is undone if it fails. Takes no extra requests; savepoints run one at a time. */
  override transaction<T>(callback: (tx: BatonTransaction<TRelations>) => Promise<T>): Promise<T> {
    return super.transaction(callback as (tx: TransactionType<'async', RunResult, TRelations>) => Promise<T>)
  }
}
