import type { Client, OptimisticOptions } from '@batonsql/core'
import { runOptimistically } from '@batonsql/core/adapter'
import type { BatchMethod, BatchQuery, BatchResults } from './batch.ts'
import type { QueryRunner } from './query-runner.ts'

// Shared by all Drizzle versions.

/** A session of Drizzle, whose transactions have the type `Tx`. */
interface OptimisticSession<Tx> {
  readonly runner: QueryRunner
  toTransaction(runner: QueryRunner): Tx
}

/** Runs a callback as an optimistic transaction of a database. */
export function runOptimisticTransaction<
  Tx extends { readonly batch: BatchMethod },
  const Q extends readonly BatchQuery[] | [],
>(
  client: Client,
  session: OptimisticSession<Tx>,
  callback: (tx: Tx) => Promise<Q> | Q,
  options: OptimisticOptions | undefined,
): Promise<BatchResults<Q>> {
  // a database of another driver has another session
  const { runner = null } = (session ?? {}) as Partial<OptimisticSession<Tx>>
  if (!runner || runner.isTransaction)
    throw new TypeError(
      'optimistic() needs a database that drizzle() of this package returned, not a transaction',
    )
  const result = runner.runTransaction<BatchResults<Q>>(
    (run) => runOptimistically(client, run, options),
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
