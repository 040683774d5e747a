import {
  asNotApplied,
  DatabaseError,
  HttpError,
  type StreamError,
  TransportError,
  withOutcome,
} from '../base/errors.ts'
import { STREAM_IDLE_MS } from '../base/limits.ts'
import type { QueuedCall } from '../request/queued-call.ts'

/** Why a call is rejected. The shell of its stream makes an error of it. */
export type Rejection =
  | { readonly type: 'error'; readonly error: unknown }
  /** The stream was closed or lost. */
  | { readonly type: 'ended' }
  | { readonly type: 'stream'; readonly code: StreamError['code']; readonly message: string }
  | { readonly type: 'misuse'; readonly message: string }
  | { readonly type: 'queueFull' }
  | { readonly type: 'timeout'; readonly timeoutMs: number }

/** A request on a stream that got no usable response. */
export interface FailedRequest {
  readonly error: unknown
  /** Time from sending it to the error, in ms. */
  readonly durationMs: number
  /** Whether it continued an existing stream. */
  readonly continuesStream: boolean
  readonly inTransaction: boolean
  /** Whether the error is the reason of an aborted signal, which says nothing about the request. */
  readonly isAborted: boolean
  /** Whether one of its calls is a COMMIT. */
  readonly commits: boolean
}

/** The effect of a failed request on its stream. */
export interface StreamFailure {
  readonly code: StreamError['code']
  readonly message: string
  /** Whether the server has no such stream, in which case there is nothing to close. */
  readonly isUnknownStream: boolean
  /** Whether it is certain that the server executed none of the request. */
  readonly notExecuted: boolean
}

export function classifyFailure(request: FailedRequest): StreamFailure {
  const { error, durationMs, continuesStream, inTransaction, commits, isAborted } = request
  const http = error instanceof HttpError ? error : null
  const isUnknownStream = continuesStream && (http?.status === 400 || http?.status === 404)
  const isExpired = http?.serverCode === 'STREAM_EXPIRED'
  // A proxy may have sent the request twice, and this may be the rejection of the second copy. The first was certainly not
  // executed if the stream's idle timeout cannot have passed since it was sent, or if nothing was sent.
  const notExecuted = isExpired
    ? durationMs < STREAM_IDLE_MS
    : !isAborted && error instanceof TransportError && error.outcome === 'not_applied'
  const isOutcomeUnknown = commits && !notExecuted
  return {
    code: isOutcomeUnknown
      ? 'STREAM_CLOSED'
      : `${inTransaction ? 'TRANSACTION' : 'STREAM'}_${isExpired ? 'EXPIRED' : 'LOST'}`,
    message: isExpired
      ? `the server closed the stream after ${STREAM_IDLE_MS / 1_000} s without a request`
      : `${isOutcomeUnknown ? 'it is not known whether the COMMIT took effect' : 'the stream was interrupted'}: ${String(error)}`,
    isUnknownStream,
    notExecuted,
  }
}

/** The parts of a call that `findRejection` needs. */
export type FailedCall = Pick<QueuedCall, 'scope' | 'transactionEnd' | 'isReadOnly' | 'options'>

/** Returns why a call of a failed request is rejected. */
export function findRejection(call: FailedCall, request: FailedRequest, failure: StreamFailure): Rejection {
  const { error, continuesStream } = request
  const { signal } = call.options
  const commits = call.transactionEnd === 'commit'
  const as = (reason: unknown): Rejection => ({ type: 'error', error: reason })
  const mayBeApplied = !call.isReadOnly && (call.scope !== 'transaction' || commits)
  // aborted by its own signal, whose reason may be the error of a time limit
  if (signal?.aborted && error === signal.reason)
    return as(mayBeApplied ? withOutcome(error, 'unknown') : error)
  if (call.isReadOnly && failure.isUnknownStream) return { type: 'ended' }
  // without a COMMIT no change is kept, regardless of what the request did
  const isNotApplied = failure.notExecuted || (call.scope === 'transaction' && !commits)
  if (isNotApplied) {
    const provesNotApplied = error instanceof DatabaseError && error.outcome === 'not_applied'
    return provesNotApplied && !failure.isUnknownStream ? as(error) : { type: 'ended' }
  }
  if (call.isReadOnly) return as(asNotApplied(error))
  // a proxy may have sent it twice, and this may be the rejection of the second copy
  return as(
    (continuesStream || commits) && error instanceof HttpError ? withOutcome(error, 'unknown') : error,
  )
}
