import type { EncodedStatement } from '../codec/statement.ts'
import { SqlError } from '../errors.ts'
import type { Deadline } from '../http/deadline.ts'
import type { StatementOptions } from '../options.ts'
import type { QueuedCall } from './queued-call.ts'
import { type MarkLost, SqlRequest } from './sql-request.ts'
import type { StreamConnection } from './stream-connection.ts'
import type { StreamState } from './stream-state.ts'

/** A stream while the rows of one statement are read from it. */
export interface CursorLease {
  readonly connection: StreamConnection
  /** The statement, and the control statements that travel in front of it. */
  readonly request: SqlRequest
  readonly prefix: readonly string[]
  readonly inTransaction: boolean
  /** Its number, for events. */
  readonly transaction: number | null
  /** Whether the stream has the write lock, or may get it by the request. */
  readonly holdsLock: boolean
  /** Aborted when the stream ends while rows are read. */
  readonly broken: AbortController
  readonly markLost: MarkLost
  /** The first rows may come: the control statements and the statement were accepted. */
  opened(): void
  fail(error: unknown): void
  giveBack(): void
}

/** What is to be read, and by which handle. */
export interface CursorCall {
  readonly owner: object
  readonly statement: EncodedStatement
  readonly options: StatementOptions
  readonly deadline: Deadline
  readonly refusal?: QueuedCall['refusal']
}

/** Waits for its turn in the stream's queue. The stream is the reader's until it gives it back, or the stream ends. */
export function lendToCursor(stream: StreamState, { statement, ...call }: CursorCall): Promise<CursorLease> {
  return stream.read({ ...call, statements: [statement] }, (queued, giveBack) =>
    leaseOf(stream, queued, giveBack),
  )
}

function leaseOf(stream: StreamState, call: QueuedCall, release: () => void): CursorLease {
  const transaction = stream.current
  transaction?.clock.pause()
  const broken = new AbortController()
  const request = new SqlRequest([call])
  let isOpened = false
  const giveBack = (): void => {
    if (stream.cursor !== cursor) return
    stream.cursor = null
    if (stream.isOpen) transaction?.clock.resume(false)
    release()
  }
  const cursor = {
    owner: call.owner ?? stream,
    stop: () => {
      giveBack()
      broken.abort(stream.endError())
    },
  }
  stream.cursor = cursor
  return {
    connection: stream.connection,
    request,
    prefix: call.prefix,
    inTransaction: call.scope === 'inside',
    transaction: transaction?.id ?? null,
    holdsLock: request.writes || transaction?.holdsLock === true,
    broken,
    markLost: stream.markLost,
    opened: () => {
      isOpened = true
      if (!stream.isOpen) return
      transaction?.answered(request.writes)
      transaction?.clock.pause()
    },
    fail: (error) => {
      if (stream.cursor !== cursor) return
      // an error of the statement itself leaves the stream as it was
      if (!(error instanceof SqlError)) stream.pump.fail([], error)
      else if (!isOpened) stream.passPrefix(call.prefix)
    },
    giveBack,
  }
}
