import type { Client, OptimisticOptions } from '@batonsql/core'
import { runOptimistically } from '@batonsql/core/adapter'
import type { BatchMethod, BatchQuery, BatchResults } from './batch.ts'
import { sessionOf } from './internals.ts'
import type { QueryRunner } from './query-runner.ts'

// Shared by all Drizzle versions.

/** A session of Drizzle, whose transactions have the type `Tx`. */
interface OptimisticSession<Tx> {
  readonly runner: QueryRunner
  toTransaction(runner: QueryRunner): Tx
}

/** A database of this package, whose transactions have the type `Tx`. */
interface Database<Tx> {
  readonly $client: Client
  transaction<T>(callback: (tx: Tx) => Promise<T>): Promise<T>
}

/**
 * Runs a transaction that holds the write lock for only one request, however far away the database is. The callback reads with `tx`,
 * without a lock, and returns its writes; they run in one atomic batch, in which each read is repeated first. If one returns
 * something else by then, nothing is kept and the callback runs again, so it must have no side effects. The result is serializable.
 *
 * ```ts
 * const [, [order]] = await optimistic(db, async (tx) => {
 *   const [wallet] = await tx.select().from(wallets).where(eq(wallets.id, 1))
 *   if (wallet.cents < 500) throw new Error('not enough')
 *   return [
 *     tx.update(wallets).set({ cents: wallet.cents - 500 }).where(eq(wallets.id, 1)),
 *     tx.insert(orders).values({ cents: 500 }).returning(),
 *   ]
 * })
 * ```
 * Return an array even for one write: a query that is returned alone would run at once. Executing a write rejects; Drizzle's cache is
 * not read. Reads through `db` are not checked: use `tx`.
 * @returns the results of the writes
 * @throws the callback's own error; ConflictError with `fallback: 'none'`; the errors of `batch`
 */
export function optimistic<
  Tx extends { readonly batch: BatchMethod },
  const Q extends readonly BatchQuery[] | [],
>(
  db: Database<Tx>,
  callback: (tx: Tx) => Promise<Q> | Q,
  options?: OptimisticOptions,
): Promise<BatchResults<Q>> {
  const session = sessionOf<OptimisticSession<Tx>>(db)
  // a database of another driver has another session
  const { runner = null } = (session ?? {}) as Partial<OptimisticSession<Tx>>
  if (!runner || runner.isTransaction)
    throw new TypeError(
      'optimistic() needs a database that drizzle() of this package returned, not a transaction',
    )
  const result = runner.runTransaction<BatchResults<Q>>(
    (run) => runOptimistically(db.$client, run, options),
    async (attemptRunner) => {
      const writes = await callback(session.toTransaction(attemptRunner))
      // the writer's batch first checks that what the callback read has not changed
      return await session.toTransaction(attemptRunner.writer).batch(writes)
    },
  )
  return result.catch((error: unknown) => {
    // Drizzle wraps the errors of queries, including the signal's reason
    const signal = options?.signal
    if (signal?.aborted && error instanceof Error && error.cause === signal.reason) throw signal.reason
    throw error
  })
}
