import type { Client } from '@batonsql/core'
import {
  DefaultLogger,
  type DrizzleConfig,
  type ExtractTablesWithRelations,
  entityKind,
  NoopLogger,
  type RelationalSchemaConfig,
} from 'drizzle-orm'
import type { SQLiteTransaction, SQLiteTransactionConfig } from 'drizzle-orm/sqlite-core'
import type { BatchMethod } from './batch.ts'
import { type Connection, mockClient, NO_CLIENT, openClient } from './connection.ts'
import { BatonDialect } from './dialect.ts'
import {
  BaseSQLiteDatabase,
  createTableRelationsHelpers,
  extractTablesRelationalConfig,
} from './drizzle-0.ts'
import { QueryRunner } from './query-runner.ts'
import type { RunResult } from './results.ts'
import { BatonSession, type SessionContext } from './session.ts'
import type { BatonTransaction } from './transaction.ts'

type Schema = Record<string, unknown>

/** A Drizzle database over HTTP. Each query is one request. */
export class BatonDatabase<TSchema extends Schema = Record<string, never>> extends BaseSQLiteDatabase<
  'async',
  RunResult,
  TSchema
> {
  static override readonly [entityKind]: string = 'BatonDatabase'

  /**
   * Runs queries in one request as a transaction: all of them are applied, or none.
   * @throws DrizzleQueryError whose cause has a `statementIndex`
   */
  // an own property, because withReplicas() copies nothing else
  readonly batch: BatchMethod
  /** The client: for statements without Drizzle, and to close it if `drizzle()` created it. */
  readonly $client: Client

  /** @internal */
  constructor(client: Client, context: SessionContext<ExtractTablesWithRelations<TSchema>>) {
    const { cache } = context
    const runner = new QueryRunner(client, async (tables) => await cache?.onMutate({ tables }))
    const session = new BatonSession<TSchema, ExtractTablesWithRelations<TSchema>>(runner, context)
    super('async', context.dialect, session, context.schema)
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
    callback: (tx: BatonTransaction<TSchema, ExtractTablesWithRelations<TSchema>>) => Promise<T>,
    config?: SQLiteTransactionConfig,
  ): Promise<T> {
    type Base = SQLiteTransaction<'async', RunResult, TSchema, ExtractTablesWithRelations<TSchema>>
    return super.transaction(callback as (tx: Base) => Promise<T>, config)
  }
}

/** Connection and Drizzle settings. The caller closes a client that it passes. */
export type BatonDrizzleConfig<TSchema extends Schema = Record<string, never>> = DrizzleConfig<TSchema> &
  Connection

function construct<TSchema extends Schema>(
  client: Client,
  { logger, schema, casing, cache }: DrizzleConfig<TSchema> = {},
): BatonDatabase<TSchema> {
  let relations: RelationalSchemaConfig<ExtractTablesWithRelations<TSchema>> | undefined
  if (schema) {
    const { tables, tableNamesMap } = extractTablesRelationalConfig<ExtractTablesWithRelations<TSchema>>(
      schema,
      createTableRelationsHelpers,
    )
    relations = { fullSchema: schema, schema: tables, tableNamesMap }
  }
  return new BatonDatabase(client, {
    dialect: new BatonDialect(casing && { casing }),
    schema: relations,
    logger: logger === true ? new DefaultLogger() : logger || new NoopLogger(),
    cache,
  })
}

/**
 * Creates a Drizzle database over HTTP: `drizzle(url)`, `drizzle(client)`, each with an optional Drizzle configuration as second
 * argument, or `drizzle({ connection, …config })` and `drizzle({ client, …config })`. Sends nothing.
 */
export function drizzle<TSchema extends Schema = Record<string, never>>(
  connection: string | URL | Client,
  config?: DrizzleConfig<TSchema>,
): BatonDatabase<TSchema>
export function drizzle<TSchema extends Schema = Record<string, never>>(
  config: BatonDrizzleConfig<TSchema>,
): BatonDatabase<TSchema>
export function drizzle<TSchema extends Schema>(
  source: string | URL | Client | BatonDrizzleConfig<TSchema>,
  config?: DrizzleConfig<TSchema>,
): BatonDatabase<TSchema> {
  return construct(...openClient(source, config))
}

/** Returns a database that builds queries and runs none. */
drizzle.mock = <TSchema extends Schema = Record<string, never>>(
  config?: DrizzleConfig<TSchema>,
): Omit<BatonDatabase<TSchema>, '$client'> & { $client: typeof NO_CLIENT } =>
  Object.assign(construct(mockClient(), config), { $client: NO_CLIENT } as const)
