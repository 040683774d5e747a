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
import { ENDED, type Rejection } from './rejection.ts'

export const IDLE_TIMEOUT_MESSAGE = `the server closed the stream after ${STREAM_IDLE_MS / 1_000} s without a request`

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

/** A failed request, and its effect on the stream. */
interface StreamFailure extends FailedRequest {
  readonly code: StreamError['code']
  readonly message: string
  /** Whether the server has no such stream, in which case there is nothing to close. */
  readonly isUnknownStream: boolean
  /** Whether it is certain that the server executed none of the request. */
  readonly notExecuted: boolean
}

/** Decides what a failed request means for the stream: its error, and whether anything may have been executed. */
export function classifyFailure(request: FailedRequest): StreamFailure {
  const { error, durationMs, continuesStream, inTransaction, commits, isAborted } = request
  const http = error instanceof HttpError ? error : null
  const isExpired = http?.serverCode === 'STREAM_EXPIRED'
  // A proxy may have sent the request twice, and this may be the rejection of the second copy. The first was certainly not
  // executed if the stream's idle timeout cannot have passed since it was sent.
  const notExecuted = isExpired
    ? durationMs < STREAM_IDLE_MS
    : !isAborted && error instanceof TransportError && error.outcome === 'not_applied'
  const isOutcomeUnknown = commits && !notExecuted
  const interruption = isOutcomeUnknown
    ? 'it is not known whether the COMMIT took effect'
    : 'the stream was interrupted'
  return {
    ...request,
    code: isOutcomeUnknown
      ? 'STREAM_CLOSED'
      : `${inTransaction ? 'TRANSACTION' : 'STREAM'}_${isExpired ? 'EXPIRED' : 'LOST'}`,
    message: isExpired ? IDLE_TIMEOUT_MESSAGE : `${interruption}: ${String(error)}`,
    isUnknownStream: continuesStream && (http?.status === 400 || http?.status === 404),
    notExecuted,
  }
}

/** Returns why a call of a failed request is rejected. */
export function findRejection(call: QueuedCall, failure: StreamFailure): Rejection {
  const { error, continuesStream, isUnknownStream, notExecuted } = failure
  const { signal } = call.options
  const commits = call.kind === 'commit'
  const as = (reason: unknown): Rejection => ({ type: 'error', error: reason })
  // without a COMMIT no change of a transaction is kept, regardless of what the request did
  const mayPersist = call.scope !== 'transaction' || commits
  // aborted by its own signal, whose reason may be the error of a time limit
  if (signal?.aborted && error === signal.reason)
    return as(mayPersist && !call.isReadOnly ? withOutcome(error, 'unknown') : error)
  if (call.isReadOnly && isUnknownStream) return ENDED
  if (notExecuted || !mayPersist) {
    const provesNotApplied = error instanceof DatabaseError && error.outcome === 'not_applied'
    return provesNotApplied && !isUnknownStream ? as(error) : ENDED
  }
  if (call.isReadOnly) return as(asNotApplied(error))
  // a rejected baton or COMMIT may be the second copy of a request that a proxy has sent twice
  const isCopyPossible = (continuesStream || commits) && error instanceof HttpError
  return as(isCopyPossible ? withOutcome(error, 'unknown') : error)
}
