import { encodeSql } from '../codec/statement.ts'
import { SqlError } from '../errors.ts'
import type { Deadline } from '../http/deadline.ts'
import type { MarkLost } from './sql-request.ts'
import type { StreamConnection } from './stream-connection.ts'
import type { StreamState } from './stream-state.ts'

/** A stream in the hands of a cursor. */
export interface CursorLease {
  readonly connection: StreamConnection
  readonly inTransaction: boolean
  /** Its number, for events. */
  readonly transaction: number | null
  /** Whether the stream has the write lock. */
  readonly holdsLock: boolean
  /** Aborted when the stream is ended under the cursor's hands. */
  readonly signal: AbortSignal
  readonly markLost: MarkLost
  fail(error: unknown): void
  giveBack(): void
}

interface CursorOptions {
  /** The handle whose rows are read. */
  readonly owner: object
  readonly deadline: Deadline
  readonly signal: AbortSignal | undefined
}

/** Gives the stream to a cursor, until it gives it back or the stream is ended. */
export async function lendToCursor(
  stream: StreamState,
  { owner, deadline, signal }: CursorOptions,
): Promise<CursorLease> {
  stream.checkOpen()
  stream.checkNoCursor()
  // BEGIN and savepoints that still wait for a statement
  if (stream.queue.hasPrefix) {
    const options = { signal, timeoutMs: deadline.timeoutMs }
    await stream.run([encodeSql('select 1')], 'alone', options)
  }
  while (stream.pump.busy) await stream.waitFor(stream.pump.busy, 'the request before', deadline, signal)
  stream.checkOpen()
  stream.checkNoCursor()
  const transaction = stream.current
  transaction?.clock.pause()
  const broken = new AbortController()
  const release = stream.pump.lend()
  const giveBack = (): void => {
    if (stream.cursor !== cursor) return
    stream.cursor = null
    if (stream.isOpen) transaction?.clock.resume(false)
    release()
  }
  const cursor = {
    owner,
    stop: () => {
      giveBack()
      broken.abort(stream.endError())
    },
  }
  stream.cursor = cursor
  return {
    connection: stream.connection,
    inTransaction: transaction !== null,
    transaction: transaction?.id ?? null,
    holdsLock: transaction?.holdsLock ?? false,
    signal: broken.signal,
    markLost: stream.markLost,
    fail: (error) => {
      // an error of the statement itself leaves the stream as it was
      const isMine = stream.cursor === cursor
      if (isMine && !(error instanceof SqlError)) stream.pump.fail([], error)
    },
    giveBack,
  }
}
