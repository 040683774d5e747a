import { entityKind } from 'drizzle-orm'
import type { QueryMetadata } from 'drizzle-orm/cache/core/types'
import { SQLiteAsyncPreparedQuery, type SQLiteAsyncPreparedQueryConfig } from 'drizzle-orm/sqlite-core'

/** A query ready to run, any number of times. */
export class BatonPreparedQuery extends SQLiteAsyncPreparedQuery<
  SQLiteAsyncPreparedQueryConfig & { type: 'async' }
> {
  static override readonly [entityKind]: string = 'BatonPreparedQuery'

  /** Which tables the query reads or changes. */
  get metadata(): QueryMetadata | undefined {
    return this.queryMetadata
  }
}

/** Tables that a query changes. */
export const tablesChangedBy = (metadata: QueryMetadata | undefined): string[] =>
  metadata && metadata.type !== 'select' ? metadata.tables() : []
