import type { EncodedStatement } from '../codec/statement.ts'
import type { AtomicBatchOptions } from '../options.ts'
import { areReadOnly, batchPrefix, type QueuedCall, type Results } from '../request/queued-call.ts'
import type { ServerStream } from './server-stream.ts'

/** Options that the handle of a transaction or savepoint adds to its call. */
export type HandleCall = Pick<QueuedCall, 'deadline' | 'cancelReason'>

/** Runs statements in the transaction of a stream, or in `defaultScope` if none is open. */
// oxlint-disable-next-line max-params
export function runStatements(
  stream: ServerStream,
  statements: readonly EncodedStatement[],
  defaultScope: QueuedCall['scope'],
  options: AtomicBatchOptions,
  { deadline, cancelReason }: HandleCall = { deadline: stream.http.deadline(options.timeoutMs) },
): Promise<Results> {
  if (statements.length === 0) return Promise.resolve([])
  const { current } = stream.transaction
  const inTransaction = current?.ending === null
  const scope = inTransaction ? 'transaction' : defaultScope
  const isReadOnly = areReadOnly(statements, options)
  const prefix = scope === 'atomic' ? batchPrefix(isReadOnly, options) : []
  return stream.http.events.query(
    statements,
    inTransaction ? current.id : null,
    () =>
      new Promise((resolve, reject) => {
        stream.enqueue({
          statements,
          scope,
          prefix,
          isReadOnly,
          canCoalesce: inTransaction,
          options,
          deadline,
          cancelReason,
          resolve,
          reject: (error) => {
            current?.addFailure(error)
            reject(error)
          },
        })
      }),
  )
}
