import { CALL_OPTIONS, checkOptions, NON_NEGATIVE_INTEGER, type RulesOf } from '@batonsql/options'
import { type Client, getHttp } from '../client/client.ts'
import type { Executor } from '../client/sql-executor.ts'
import { checkCallback, Transaction } from '../client/transaction.ts'
import { beginStatement } from '../codec/control.ts'
import type { ResultSet } from '../codec/result.ts'
import type { InStatement } from '../codec/statement.ts'
import { backoffMs } from '../http/retry.ts'
import type { CallOptions } from '../options.ts'
import { ServerStream } from '../stream/server-stream.ts'
import { timeoutError } from '../transport/failure.ts'
import { type Attempt, OptimisticAttempt, TransactionAttempt } from './attempt.ts'

/** Settings of an optimistic transaction. */
export interface OptimisticOptions extends CallOptions {
  /** Time after which no further attempt begins, in ms. @default the client's `requestTimeoutMs` */
  readonly timeoutMs?: number | undefined
  /** Number of conflicts before the fallback. @default 8 */
  readonly maxConflicts?: number | undefined
  /**
   * What happens after `maxConflicts`: `transaction` runs the same callback in a transaction, which waits for the write lock and always finishes;
   * `none` throws a ConflictError.
   * @default 'transaction'
   */
  readonly fallback?: 'transaction' | 'none' | undefined
}

/** Reads of an optimistic transaction. Those that are issued together share a request. */
export type OptimisticReader = Pick<Executor, 'execute' | 'batch'>

const OPTIONS: RulesOf<OptimisticOptions> = {
  ...CALL_OPTIONS,
  maxConflicts: NON_NEGATIVE_INTEGER,
  fallback: ['transaction', 'none'],
}
const DEFAULT_MAX_CONFLICTS = 8
/** First and longest delay before another attempt, in ms. */
const FIRST_DELAY_MS = 10
const LONGEST_DELAY_MS = 200

/**
 * Runs a transaction that holds the write lock for only one request, however far away the database is. The callback reads, without a
 * lock, and returns its writes; they run in one atomic batch, in which each read is repeated first. If one returns
 * something else by then, nothing is kept and the callback runs again, so it must have no side effects. The result is serializable.
 *
 * ```ts
 * await optimistic(db, async (tx) => {
 *   const { rows } = await tx.execute<Wallet>('select cents from wallet where id = ?', [1])
 *   if (rows[0].cents < 500) throw new Error('not enough')
 *   return [{ sql: 'update wallet set cents = ? where id = ?', args: [rows[0].cents - 500, 1] }]
 * })
 * ```
 * Reads through `db` are not checked: use `tx`. A callback that throws because its reads saw two states runs again.
 * @returns the results of the writes
 * @throws the callback's own error; ConflictError with `fallback: 'none'`; the errors of a batch, whose `statementIndex` counts the
 * writes; TransportError `TIMEOUT`; the signal's reason
 */
export const optimistic = <const Statements extends readonly InStatement[] | []>(
  db: Client,
  callback: (tx: OptimisticReader) => Promise<Statements> | Statements,
  options: OptimisticOptions = {},
): Promise<{ -readonly [At in keyof Statements]: ResultSet }> => {
  checkCallback(callback)
  return runOptimistically(
    db,
    async (attempt) => await attempt.writer.batch(await callback(attempt)),
    options,
  )
}

/** For adapters: runs an attempt, which commits itself, until it has no conflict. */
export async function runOptimistically<T>(
  db: Client,
  run: (attempt: Attempt) => Promise<T>,
  options: OptimisticOptions = {},
): Promise<T> {
  checkOptions(options, OPTIONS)
  const http = getHttp(db)
  const { lifetime, events, config } = http
  const { signal, timeoutMs, maxConflicts = DEFAULT_MAX_CONFLICTS, fallback = 'transaction' } = options
  const deadline = http.deadline(timeoutMs)
  lifetime.begin()
  try {
    for (let conflicts = 0, isLast = false; ; conflicts += 1) {
      signal?.throwIfAborted()
      if (deadline.remainingMs <= 0) throw timeoutError(deadline.timeoutMs, config.address.origin, false)
      // a server without batches would repeat each read in a request of its own
      if (isLast || (http.server.isExecuteOnly && fallback === 'transaction')) {
        // `true`: counted above, because a client that is being closed accepts no new call
        const stream = new ServerStream(http, true)
        stream.begin(beginStatement())
        return await Transaction.run(stream, (tx) => run(new TransactionAttempt(tx, { signal })))
      }
      const attempt = new OptimisticAttempt(http, { signal })
      try {
        const result = await run(attempt)
        await attempt.check()
        return result
      } catch (error) {
        const failure = await attempt.findFailure(error)
        if (failure === null) throw error
        isLast = conflicts >= maxConflicts || failure.repeatAs === 'fallback'
        if (isLast && fallback === 'none') throw failure.error
        const delayMs = isLast ? 0 : backoffMs(conflicts, FIRST_DELAY_MS, LONGEST_DELAY_MS)
        events.emit({ type: 'retry', attempt: conflicts + 1, delayMs, error: failure.error })
        if (!isLast) await lifetime.sleep(delayMs, signal)
      }
    }
  } finally {
    lifetime.end()
  }
}
