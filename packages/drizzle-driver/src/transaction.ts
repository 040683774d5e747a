import { entityKind, type TablesRelationalConfig } from 'drizzle-orm'
import { SQLiteTransaction } from 'drizzle-orm/sqlite-core'
import type { BatchMethod } from './batch.ts'
import type { SessionContext, TransactionSession } from './session-context.ts'
import type { RunResult } from './values.ts'

/** A transaction, or a savepoint inside one: `transaction()` on it makes the next. */
export class BatonTransaction<
  TFullSchema extends Record<string, unknown>,
  TSchema extends TablesRelationalConfig,
> extends SQLiteTransaction<'async', RunResult, TFullSchema, TSchema> {
  static override readonly [entityKind]: string = 'BatonTransaction'

  /**
   * Runs queries in one request, none after one that fails. What came before stays in the transaction: let the error out
   * of the callback, or use a nested transaction.
   */
  readonly batch: BatchMethod

  constructor(
    session: TransactionSession<TFullSchema, TSchema>,
    { dialect, schema }: SessionContext<TSchema>,
  ) {
    super('async', dialect, session, schema)
    this.batch = ((queries) => session.batch(queries)) as BatchMethod
  }

  /** Begins a savepoint: what fails in it is undone by itself. Costs no requests; those of one transaction take turns. */
  override transaction<T>(callback: (tx: BatonTransaction<TFullSchema, TSchema>) => Promise<T>): Promise<T> {
    return super.transaction(
      callback as (tx: SQLiteTransaction<'async', RunResult, TFullSchema, TSchema>) => Promise<T>,
    )
  }
}
