import { type EncodedStatement, encodeSql } from '../codec/statement.ts'
import { HttpError, SqlError, StreamError } from '../errors.ts'
import type { StatementOptions } from '../options.ts'
import type { QueuedCall } from './queued-call.ts'
import { type MarkLost, SqlRequest } from './sql-request.ts'
import type { StreamConnection } from './stream-connection.ts'
import type { HandleCall, StreamState } from './stream-state.ts'

/** A stream while the rows of one statement are read from it. */
export interface CursorLease {
  readonly connection: StreamConnection
  readonly request: SqlRequest
  readonly inTransaction: boolean
  /** Its number, for events. */
  readonly transaction: number | null
  /** Whether the stream has the write lock, or may get it by the request. */
  readonly holdsLock: boolean
  /** Aborted when no more rows are wanted: the handle that reads them has ended, and the stream may go on. */
  readonly stopped: AbortController
  /** Aborted, too, when the stream ends. */
  readonly over: AbortController
  readonly markLost: MarkLost
  /** Set by the reader: ends the reading before its end, so that the stream can go on. */
  finish: () => Promise<void>
  /** The server has begun to answer. */
  opened(): void
  fail(error: unknown): void
  giveBack(): void
}

/** What is to be read, and by which handle. */
export interface CursorCall extends HandleCall {
  readonly owner: object
  readonly statement: EncodedStatement
  readonly options: StatementOptions
}

/** Waits for its turn in the stream's queue. The stream is the reader's until it gives it back. */
export function lendToCursor(stream: StreamState, { statement, ...call }: CursorCall): Promise<CursorLease> {
  return stream.read({ ...call, statements: [statement] }, (queued, giveBack) =>
    lend(stream, queued, giveBack),
  )
}

async function lend(stream: StreamState, call: QueuedCall, release: () => void): Promise<CursorLease> {
  const lease = leaseOf(stream, call, release)
  try {
    if (call.prefix.length > 0) await sendPrefix(stream, call)
    lease.stopped.signal.throwIfAborted()
    stream.current?.clock.pause()
    return lease
  } catch (error) {
    lease.giveBack()
    throw error
  }
}

/** Sends the control statements by themselves: the rows may be given up before the server has begun with them. */
function sendPrefix(stream: StreamState, call: QueuedCall): Promise<void> {
  return new Promise((resolve, reject) => {
    const options = { ...call.options, readOnly: true }
    const statements = [encodeSql('SELECT 1')]
    const queued = { ...call, options, statements, lend: undefined, resolve: () => resolve(), reject }
    void stream.pump.send([queued], false)
  })
}

function leaseOf(stream: StreamState, call: QueuedCall, release: () => void): CursorLease {
  const transaction = stream.current
  const request = new SqlRequest([{ ...call, prefix: [] }])
  const cursor = {
    owner: call.owner ?? stream,
    isStopped: false,
    stop: () => {
      if (stream.cursor !== cursor) return
      cursor.isStopped = true
      const error = stream.endError()
      if (!stream.isOpen) lease.over.abort(error)
      lease.stopped.abort(error)
      void lease
        .finish()
        .catch((error: unknown) => lease.fail(error))
        .then(() => lease.giveBack())
    },
  }
  const lease: CursorLease = {
    connection: stream.connection,
    request,
    inTransaction: call.scope === 'inside',
    transaction: transaction?.id ?? null,
    holdsLock: request.writes || transaction?.holdsLock === true,
    stopped: new AbortController(),
    over: new AbortController(),
    markLost: stream.markLost,
    // until there is a reader: what is about to begin gives the stream back by itself
    finish: () => new Promise(() => {}),
    opened: () => {
      if (!stream.isOpen) return
      transaction?.answered(request.writes)
      transaction?.clock.pause()
    },
    fail: (error) => {
      // an error of the statement itself leaves the stream as it was; and one of the stream has been dealt with
      const isKnown = error instanceof SqlError || error instanceof StreamError
      if (stream.cursor !== cursor || isKnown) return
      // a server without cursors knows the stream all the same
      const isMissing = error instanceof HttpError && error.status === 404 && !error.body
      stream.pump.fail([], error, { continuesStream: !isMissing })
    },
    giveBack: () => {
      if (stream.cursor !== cursor) return
      stream.cursor = null
      if (stream.isOpen) transaction?.clock.resume(false)
      release()
    },
  }
  stream.cursor = cursor
  return lease
}
