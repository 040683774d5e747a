import type { Executor, OptimisticOptions } from '@batonsql/core'
import { runOptimistically } from '@batonsql/core/adapter'
import { type DatabaseConnection, Kysely, type KyselyProps, type QueryExecutor } from 'kysely'
import { getBatonExecutor } from './adapter.ts'
import { type Batchable, type BatchResults, batch } from './batch.ts'
import type { BatonConnection } from './connection.ts'
import { BatonIntrospector } from './introspector.ts'

/**
 * Runs a transaction that holds the write lock for only one request, however far away the database is. The callback reads with `tx`,
 * without a lock, and returns its writes. They run in one atomic batch, in which each read is repeated first. If the result of a
 * read has changed, nothing is applied and the callback is called again; it must have no side effects. The result is serializable.
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
 * @throws the callback's own error; ConflictError with `fallback: 'none'`; any error of `batch`
 */
export async function optimistic<DB, const Q extends readonly Batchable[] | []>(
  db: Kysely<DB>,
  callback: (tx: Kysely<DB>) => Promise<Q> | Q,
  options?: OptimisticOptions,
): Promise<BatchResults<Q>> {
  const executor = getBatonExecutor(db, 'optimistic() needs a Kysely instance made with BatonDialect')
  const client = await executor.provideConnection(async (connection) =>
    toBatonConnection(connection).getClientForOptimistic(),
  )
  return await runOptimistically(
    client,
    async (attempt) => {
      const writes = await callback(createKysely<DB>(executor, attempt))
      if (!Array.isArray(writes)) throw new TypeError('the callback must return an array of queries')
      return await batch(createKysely<DB>(executor, attempt.writer), writes as Q)
    },
    options,
  )
}

/** Only the driver of {@link BatonDialect} creates connections for an executor with its adapter. */
const toBatonConnection = (connection: DatabaseConnection): BatonConnection => connection as BatonConnection

/**
 * Creates a Kysely instance with the plugins and the compiler of `executor`.
 * @param target executor of its queries: that of the reads or of the writes of an attempt
 */
function createKysely<DB>(executor: QueryExecutor, target: Executor): Kysely<DB> {
  // Kysely compiles queries, and gets connections for them, only through the executor
  const ownExecutor = executor.withConnectionProvider({
    provideConnection: (consumer) =>
      executor.provideConnection((connection) =>
        toBatonConnection(connection).runOn(target, () => consumer(connection)),
      ),
  })
  // if an executor is given, Kysely uses the driver only to begin and end transactions, and for `destroy()`
  const driver: KyselyProps['driver'] = {
    init: neverCalled,
    acquireConnection: neverCalled,
    beginTransaction: async () => {
      throw new TypeError('transactions cannot be nested in an optimistic transaction')
    },
    commitTransaction: neverCalled,
    rollbackTransaction: neverCalled,
    releaseConnection: neverCalled,
    destroy: async () => {},
  }
  // if an executor and a driver are given, Kysely uses the dialect only for `introspection`
  const dialect: KyselyProps['dialect'] = {
    createDriver: neverCalled,
    createQueryCompiler: neverCalled,
    createAdapter: neverCalled,
    createIntrospector: (db) => new BatonIntrospector(db),
  }
  return new Kysely<DB>({ config: { dialect }, dialect, driver, executor: ownExecutor })
}

function neverCalled(): never {
  throw new Error('Kysely is expected to use the executor instead')
}
