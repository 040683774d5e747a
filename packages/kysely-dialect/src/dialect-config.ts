import type { Client, ClientConfig } from '@batonsql/core'

/** Settings of the dialect besides the client's own. */
export interface DialectOptions {
  /**
   * How transactions begin that do not say `setAccessMode()`. `deferred` ones fail with SQLITE_BUSY when they write
   * after another writer did.
   * @default 'immediate'
   */
  readonly transactionMode?: 'immediate' | 'deferred' | undefined
  /**
   * Lets Kysely's Migrator run all pending migrations in one transaction. It loses its write lock after 5 s when others
   * wait, and `PRAGMA foreign_keys` does nothing in it.
   * @default false
   */
  readonly transactionalMigrations?: boolean | undefined
}

/** A client, which stays the caller's to close, or the configuration of one, which `Kysely.destroy()` closes. */
export type BatonDialectConfig = DialectOptions &
  ((ClientConfig & { readonly client?: undefined }) | { readonly client: Client; readonly url?: undefined })
