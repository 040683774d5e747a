import type { Client, ClientConfig } from '@batonsql/core'

/** Options of the dialect, in addition to the client's options. */
export interface DialectOptions {
  /**
   * How transactions without `setAccessMode()` begin. A `deferred` one fails with SQLITE_BUSY if another writer has written since it
   * began.
   * @default 'immediate'
   */
  readonly transactionMode?: 'immediate' | 'deferred' | undefined
  /**
   * Lets Kysely's Migrator run all pending migrations in one transaction. The server takes away the transaction's write lock
   * after 5 s if others wait. `PRAGMA foreign_keys` is rejected in it, because SQLite would ignore it.
   * @default false
   */
  readonly transactionalMigrations?: boolean | undefined
}

/** A client, which the caller closes, or the configuration of one, which `Kysely.destroy()` closes. */
export type BatonDialectConfig = DialectOptions &
  ((ClientConfig & { readonly client?: undefined }) | { readonly client: Client; readonly url?: undefined })
