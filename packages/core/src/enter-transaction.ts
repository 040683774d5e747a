import { enterInside } from '#context'
import { type Stream, stateOf } from './stream/stream.ts'

/**
 * For adapters whose callbacks are called by somebody else: lets everything that begins from here on, in the function that
 * calls this, count as inside the transaction of a stream, so that a call that would wait for it can be told. In node; elsewhere
 * it does nothing. To be called before the first `await`.
 */
export function enterTransaction(stream: Stream): void {
  const { connection, current } = stateOf(stream)
  if (current) enterInside(connection.http.writeLock, current)
}
