import type { Logger, RelationalSchemaConfig, TablesRelationalConfig } from 'drizzle-orm'
import type { Cache } from 'drizzle-orm/cache/core'
import type { SQLiteAsyncDialect, SQLiteSession } from 'drizzle-orm/sqlite-core'
import type { BatchQuery } from './batch.ts'
import type { RunResult } from './values.ts'

/** What the session of a database and those of its transactions have in common. */
export interface SessionContext<TSchema extends TablesRelationalConfig> {
  readonly dialect: SQLiteAsyncDialect
  readonly schema: RelationalSchemaConfig<TSchema> | undefined
  readonly logger: Logger
  readonly cache: Cache | undefined
}

/** The session of a transaction, as far as the transaction needs it. */
export interface TransactionSession<
  TFullSchema extends Record<string, unknown>,
  TSchema extends TablesRelationalConfig,
> extends SQLiteSession<'async', RunResult, TFullSchema, TSchema> {
  batch(queries: readonly BatchQuery[]): Promise<unknown[]>
}
