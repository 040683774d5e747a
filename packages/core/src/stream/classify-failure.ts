import { asNotApplied, DatabaseError, HttpError, type StreamError, TransportError } from '../base/errors.ts'
import { STREAM_IDLE_MS } from '../base/limits.ts'
import type { QueuedCall } from '../request/queued-call.ts'

/** A request of a stream that got no usable answer. */
export interface FailedRequest {
  readonly error: unknown
  /** Time between its leaving and the error, in ms. */
  readonly durationMs: number
  /** Whether it went to a stream that the server had already. */
  readonly continuesStream: boolean
  readonly inTransaction: boolean
  /** Whether one of its calls is the COMMIT. */
  readonly commits: boolean
}

/** What it means for the stream. */
export interface StreamFailure {
  readonly code: StreamError['code']
  readonly message: string
  /** The server knows nothing of the stream, so that there is nothing to close. */
  readonly isUnknownStream: boolean
  /** The server is sure to have run nothing of the request. */
  readonly notExecuted: boolean
}

export function classifyFailure(request: FailedRequest): StreamFailure {
  const { error, durationMs, continuesStream, inTransaction, commits } = request
  const http = error instanceof HttpError ? error : null
  const isUnknownStream = continuesStream && (http?.status === 400 || http?.status === 404)
  const isExpired = http?.serverCode === 'STREAM_EXPIRED'
  // Something on the way may have sent the request twice, and it is the second that was refused: only an idle time that
  // cannot have passed since says that the first was not there. What never left is sure, too.
  const notExecuted = isExpired
    ? durationMs < STREAM_IDLE_MS
    : error instanceof TransportError && error.outcome === 'not_applied'
  const isUnclear = commits && !notExecuted
  return {
    code: isUnclear
      ? 'STREAM_CLOSED'
      : `${inTransaction ? 'TRANSACTION' : 'STREAM'}_${isExpired ? 'EXPIRED' : 'LOST'}`,
    message: isExpired
      ? `the server closed the stream after ${STREAM_IDLE_MS / 1_000} s without a request`
      : `${isUnclear ? 'it is not known whether the COMMIT took effect' : 'the stream broke off'}: ${String(error)}`,
    isUnknownStream,
    notExecuted,
  }
}

/** What is known of one of the calls of the request. */
export type FailedCall = Pick<QueuedCall, 'scope' | 'transactionEnd' | 'isReadOnly' | 'options'>

/** The error of a call. @param lost the stream's own */
export function callError(
  call: FailedCall,
  request: FailedRequest,
  failure: StreamFailure,
  lost: StreamError,
): unknown {
  const { error, continuesStream } = request
  const { signal } = call.options
  const commits = call.transactionEnd === 'commit'
  // given up by its own signal
  if (signal?.aborted && error === signal.reason) return error
  if (call.isReadOnly && failure.isUnknownStream) return lost
  // without a COMMIT nothing was kept, whatever the request did
  const keepsNothing = failure.notExecuted || (call.scope === 'transaction' && !commits)
  if (keepsNothing) {
    const isKnown = error instanceof DatabaseError && error.outcome === 'not_applied'
    return isKnown && !failure.isUnknownStream ? error : lost
  }
  if (call.isReadOnly) return asNotApplied(error)
  // it may have been sent twice on the way, and the second be what was refused
  if ((continuesStream || commits) && error instanceof HttpError) Object.assign(error, { outcome: 'unknown' })
  return error
}
