import type { Client } from '@batonsql/core'
import { type AnyRelations, DefaultLogger, type EmptyRelations, entityKind, NoopLogger } from 'drizzle-orm'
import type {
  DrizzleSQLiteConfig,
  SQLiteAsyncTransaction,
  SQLiteTransactionConfig,
} from 'drizzle-orm/sqlite-core'
import type { BatchMethod } from '../batch.ts'
import { type Connection, mockClient, NO_CLIENT, openClient } from '../connection.ts'
import { jitCompatCheck } from '../internals.ts'
import { QueryRunner } from '../query-runner.ts'
import type { RunResult } from '../results.ts'
import { batonCodecs } from './codecs.ts'
import { BatonDialect } from './dialect.ts'
import { SQLiteAsyncDatabase } from './drizzle-1.ts'
import { BatonSession, type SessionContext } from './session.ts'
import type { BatonTransaction } from './transaction.ts'

/** A Drizzle database over HTTP. Each query is one request. */
export class BatonDatabase<TRelations extends AnyRelations = EmptyRelations> extends SQLiteAsyncDatabase<
  'async',
  RunResult,
  TRelations
> {
  static override readonly [entityKind]: string = 'BatonDatabase'

  /**
   * Runs queries in one request as a transaction: all of them are applied, or none.
   * @throws DrizzleQueryError whose cause has a `statementIndex`
   */
  readonly batch: BatchMethod
  /** The client: for statements without Drizzle, and to close it if `drizzle()` created it. */
  readonly $client: Client

  /** @internal */
  constructor(client: Client, context: SessionContext<TRelations>) {
    const { cache } = context
    const runner = new QueryRunner(client, async (tables) => await cache?.onMutate({ tables }))
    const session = new BatonSession<TRelations>(runner, context)
    super('async', context.dialect, session, context.relations)
    this.batch = session.batch
    this.$client = client
    // the same object that was configured, as in Drizzle's own drivers
    if (cache) this.$cache = Object.assign(cache, { invalidate: cache.onMutate.bind(cache) })
  }

  /**
   * Runs a callback in a transaction, which is committed when it returns and rolled back when it throws. It begins with its
   * first statement; the server lets it hold the write lock for 5 s while other writers wait.
   * @throws the callback's own error; StreamError if the server ended the transaction before the commit
   */
  override transaction<T>(
    callback: (tx: BatonTransaction<TRelations>) => Promise<T>,
    config?: SQLiteTransactionConfig,
  ): Promise<T> {
    type Base = SQLiteAsyncTransaction<'async', RunResult, TRelations>
    return super.transaction(callback as (tx: Base) => Promise<T>, config)
  }
}

/** Connection and Drizzle settings. The caller closes a client that it passes. */
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
 * Creates a Drizzle 1.0 database over HTTP: `drizzle(url)`, `drizzle(client)`, each with an optional Drizzle configuration as second
 * argument, or `drizzle({ connection, …config })` and `drizzle({ client, …config })`. Sends nothing.
 *
 * Experimental: written for 1.0.0-rc.5. Several release candidates of Drizzle have changed the interface for drivers.
 */
export function drizzle<TRelations extends AnyRelations = EmptyRelations>(
  connection: string | URL | Client,
  config?: DrizzleSQLiteConfig<TRelations>,
): BatonDatabase<TRelations>
export function drizzle<TRelations extends AnyRelations = EmptyRelations>(
  config: BatonDrizzleConfig<TRelations>,
): BatonDatabase<TRelations>
export function drizzle<TRelations extends AnyRelations>(
  source: string | URL | Client | BatonDrizzleConfig<TRelations>,
  config?: DrizzleSQLiteConfig<TRelations>,
): BatonDatabase<TRelations> {
  return construct(...openClient(source, config))
}

/** Returns a database that builds queries and runs none. */
drizzle.mock = <TRelations extends AnyRelations = EmptyRelations>(
  config?: DrizzleSQLiteConfig<TRelations>,
): Omit<BatonDatabase<TRelations>, '$client'> & { $client: typeof NO_CLIENT } =>
  Object.assign(construct(mockClient(), config), { $client: NO_CLIENT } as const)
