import type { Executor, OptimisticOptions } from '@batonsql/core'
import { runOptimistically } from '@batonsql/core/adapter'
import { Kysely, type KyselyProps, type QueryExecutor } from 'kysely'
import { BatonAdapter } from './adapter.ts'
import { type Batchable, type BatchResults, batch } from './batch.ts'
import type { BatonConnection } from './connection.ts'
import { BatonIntrospector } from './introspector.ts'

/**
 * Runs a transaction that holds the write lock for only one request, however far away the database is. The callback reads with `tx`,
 * without a lock, and returns its writes; they run in one atomic batch, in which each read is repeated first. If one returns
 * something else by then, nothing is kept and the callback runs again, so it must have no side effects. The result is serializable.
 *
 * ```ts
 * const [, [order]] = await optimistic(db, async (tx) => {
 *   const wallet = await tx.selectFrom('wallet').selectAll().where('id', '=', 1).executeTakeFirstOrThrow()
 *   if (wallet.cents < 500) throw new Error('not enough')
 *   return [
 *     tx.updateTable('wallet').set({ cents: wallet.cents - 500 }).where('id', '=', 1),
 *     tx.insertInto('order').values({ cents: 500 }).returning('id'),
 *   ]
 * })
 * ```
 * Executing a write rejects. Reads through `db` are not checked: use `tx`.
 * @returns the results of the writes, each as its own `execute()` returns it
 * @throws the callback's own error; ConflictError with `fallback: 'none'`; the errors of `batch`
 */
export async function optimistic<DB, const Q extends readonly Batchable[] | []>(
  db: Kysely<DB>,
  callback: (tx: Kysely<DB>) => Promise<Q> | Q,
  options?: OptimisticOptions,
): Promise<BatchResults<Q>> {
  const executor = db.getExecutor()
  if (!(executor.adapter instanceof BatonAdapter))
    throw new TypeError('optimistic() needs a Kysely instance made with BatonDialect')
  const client = await executor.provideConnection(
    async (connection) => (connection as BatonConnection).idleClient,
  )
  return await runOptimistically(
    client,
    async (attempt) => {
      const writes = await callback(runOn<DB>(executor, attempt))
      if (!Array.isArray(writes)) throw new TypeError('the callback must return an array of queries')
      return await batch(runOn<DB>(executor, attempt.writer), writes as Q)
    },
    options,
  )
}

/** Returns an instance with the plugins and the compiler of another, whose queries run on the reads or the writes of an attempt. */
function runOn<DB>(executor: QueryExecutor, attempt: Executor): Kysely<DB> {
  const reject = async (): Promise<never> => {
    throw new TypeError('transactions cannot be nested in an optimistic transaction')
  }
  const driver: KyselyProps['driver'] = {
    init: async () => {},
    acquireConnection: reject,
    beginTransaction: reject,
    commitTransaction: reject,
    rollbackTransaction: async () => {},
    releaseConnection: async () => {},
    destroy: async () => {},
  }
  const dialect: KyselyProps['dialect'] = {
    createDriver: () => driver,
    createQueryCompiler: () => {
      throw new TypeError('the compiler of the instance is used')
    },
    createAdapter: () => executor.adapter,
    createIntrospector: (db) => new BatonIntrospector(db),
  }
  return new Kysely<DB>({
    config: { dialect },
    dialect,
    driver,
    executor: executor.withConnectionProvider({
      provideConnection: (consumer) =>
        executor.provideConnection(async (connection) => {
          const ownConnection = connection as BatonConnection
          ownConnection.attempt = attempt
          try {
            return await consumer(connection)
          } finally {
            ownConnection.attempt = null
          }
        }),
    }),
  })
}
