import { type AnyRelations, entityKind } from 'drizzle-orm'
import { SQLiteAsyncTransaction } from 'drizzle-orm/sqlite-core'
import type { BatchMethod } from '../batch.ts'
import type { RunResult } from '../values.ts'

/** A transaction, or a savepoint inside one: `transaction()` on it makes the next. */
export class BatonTransaction<TRelations extends AnyRelations> extends SQLiteAsyncTransaction<
  'async',
  RunResult,
  TRelations
> {
  static override readonly [entityKind]: string = 'BatonTransaction'

  /**
   * Runs queries in one request, none after one that fails. What came before stays in the transaction: let the error out
   * of the callback, or use a nested transaction.
   */
  readonly batch: BatchMethod

  constructor(
    batch: BatchMethod,
    ...rest: ConstructorParameters<typeof SQLiteAsyncTransaction<'async', RunResult, TRelations>>
  ) {
    super(...rest)
    this.batch = batch
  }

  /** Begins a savepoint: what fails in it is undone by itself. Costs no requests; those of one transaction take turns. */
  override transaction<T>(callback: (tx: BatonTransaction<TRelations>) => Promise<T>): Promise<T> {
    return super.transaction(
      callback as (tx: SQLiteAsyncTransaction<'async', RunResult, TRelations>) => Promise<T>,
    )
  }
}
