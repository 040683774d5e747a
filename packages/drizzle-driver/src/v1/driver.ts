import type { Client } from '@batonsql/core'
import { type AnyRelations, DefaultLogger, type EmptyRelations, entityKind, NoopLogger } from 'drizzle-orm'
import {
  type DrizzleSQLiteConfig,
  SQLiteAsyncDatabase,
  type SQLiteAsyncTransaction,
  type SQLiteTransactionConfig,
} from 'drizzle-orm/sqlite-core'
import type { BatchMethod } from '../batch.ts'
import { type Connection, mockClient, NO_CLIENT, openClient } from '../connection.ts'
import { jitCompatCheck } from '../internals.ts'
import { QueryRunner } from '../query-runner.ts'
import type { RunResult } from '../values.ts'
import { batonCodecs } from './codecs.ts'
import { BatonDialect } from './dialect.ts'
import { BatonSession, type SessionContext } from './session.ts'
import type { BatonTransaction } from './transaction.ts'

/** Drizzle on a database over HTTP. Each query is one request. */
export class BatonDatabase<TRelations extends AnyRelations = EmptyRelations> extends SQLiteAsyncDatabase<
  'async',
  RunResult,
  TRelations
> {
  static override readonly [entityKind]: string = 'BatonDatabase'

  /**
   * Runs queries as one transaction in one request: all of them take effect, or none.
   * @throws DrizzleQueryError whose cause carries `statementIndex`
   */
  readonly batch: BatchMethod
  /** The client: for statements without Drizzle, and to close it when `drizzle()` made it. */
  readonly $client: Client

  constructor(client: Client, context: SessionContext<TRelations>) {
    const { cache } = context
    const runner = new QueryRunner(client, async (tables) => await cache?.onMutate({ tables }))
    const session = new BatonSession<TRelations>(runner, context)
    super('async', context.dialect, session, context.relations)
    this.batch = session.batch
    this.$client = client
    // the very object that was configured, as Drizzle's own drivers have it
    if (cache) this.$cache = Object.assign(cache, { invalidate: cache.onMutate.bind(cache) })
  }

  /**
   * Runs a callback as a transaction: committed when it returns, rolled back when it throws. It begins with its first
   * statement, and the server lets it hold the write lock for 5 s when others wait.
   * @throws the callback's own error; StreamError when the server ended the transaction before the commit
   */
  override transaction<T>(
    callback: (tx: BatonTransaction<TRelations>) => Promise<T>,
    config?: SQLiteTransactionConfig,
  ): Promise<T> {
    type Base = SQLiteAsyncTransaction<'async', RunResult, TRelations>
    return super.transaction(callback as (tx: Base) => Promise<T>, config)
  }
}

/** How to reach the database, and Drizzle's own settings. A given client stays the caller's to close. */
export type BatonDrizzleConfig<TRelations extends AnyRelations = EmptyRelations> =
  DrizzleSQLiteConfig<TRelations> & Connection

function construct<TRelations extends AnyRelations>(
  client: Client,
  { logger, relations, cache, jit, paramsInErrors, codecs }: DrizzleSQLiteConfig<TRelations> = {},
): BatonDatabase<TRelations> {
  return new BatonDatabase(client, {
    dialect: new BatonDialect({ codecs: codecs ?? batonCodecs, useJitMappers: jitCompatCheck(jit) }),
    relations: relations ?? ({} as TRelations),
    logger: logger === true ? new DefaultLogger() : logger || new NoopLogger(),
    cache,
    paramsInErrors,
  })
}

/**
 * Drizzle 1.0 on a database over HTTP: `drizzle(url)`, `drizzle(client)`, either with Drizzle's configuration as second
 * argument, or `drizzle({ connection, …config })` and `drizzle({ client, …config })`. Sends nothing.
 *
 * Experimental: it is made for 1.0.0-rc.5, and Drizzle has changed what it asks of drivers in several of its candidates.
 */
export function drizzle<TRelations extends AnyRelations = EmptyRelations>(
  connection: string | URL | Client,
  config?: DrizzleSQLiteConfig<TRelations>,
): BatonDatabase<TRelations>
export function drizzle<TRelations extends AnyRelations = EmptyRelations>(
  config: BatonDrizzleConfig<TRelations>,
): BatonDatabase<TRelations>
export function drizzle<TRelations extends AnyRelations>(
  first: string | URL | Client | BatonDrizzleConfig<TRelations>,
  config?: DrizzleSQLiteConfig<TRelations>,
): BatonDatabase<TRelations> {
  return construct(...openClient(first, config))
}

/** A database that builds queries and runs none. */
drizzle.mock = <TRelations extends AnyRelations = EmptyRelations>(
  config?: DrizzleSQLiteConfig<TRelations>,
): Omit<BatonDatabase<TRelations>, '$client'> & { $client: typeof NO_CLIENT } =>
  Object.assign(construct(mockClient(), config), { $client: NO_CLIENT } as const)
