import { ROLLBACK } from '../codec/control.ts'
import type { CallOptions } from '../options.ts'
import type { ServerStream } from './server-stream.ts'
import { rolledBackError } from './statement-queue.ts'

/**
 * Rolls back the transaction of a stream. Does not reject if the transaction no longer exists. Not a method, so that bundles
 * omit it: `transaction()` closes its stream instead.
 * @throws the signal's reason, or TransportError `TIMEOUT`, while a COMMIT is in flight
 */
export async function rollback(stream: ServerStream, options: CallOptions = {}): Promise<void> {
  const { http, transaction: control } = stream
  const transaction = control.current
  if (transaction?.ending) {
    // the COMMIT may fail
    const settled = transaction.ending.catch(() => {})
    await http.lifetime.until(() => settled, {
      deadline: http.deadline(options.timeoutMs),
      signal: options.signal,
    })
  }
  // closing rolls back
  if (!transaction || transaction !== control.current || !stream.isOpen) return
  stream.queue.stopCursors(rolledBackError)
  try {
    await control.end(ROLLBACK, options)
  } catch (error) {
    // whatever the reason, the server rolls back, at the latest when it drops the stream
    stream.markLost('TRANSACTION_LOST', 'the rollback failed; the stream was closed', error)
  }
}
