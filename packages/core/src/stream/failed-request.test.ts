import { describe, expect, test } from 'vitest'
import { type DatabaseError, HttpError, ProtocolError, StreamError, TransportError } from '../base/errors.ts'
import type { QueuedCall } from '../request/queued-call.ts'
import { classifyFailure, type FailedRequest, findRejection } from './failed-request.ts'

const expired = new HttpError(400, 'h', '{"message":"expired","code":"STREAM_EXPIRED"}')
const invalidBaton = new HttpError(400, 'h', 'Received an invalid baton')
const notFound = new HttpError(404, 'h', '{"error":"stream not found"}')
const tooManyRequests = new HttpError(429, 'h', '')
const unauthorized = new HttpError(401, 'h', '')
const badGateway = new HttpError(502, 'h', '')
const connectionRefused = new TransportError('NETWORK', 'connection refused', 'not_applied')
const connectionReset = new TransportError('NETWORK', 'connection reset', 'unknown')
const timedOut = new TransportError('TIMEOUT', 'timeout', 'unknown')
const malformed = new ProtocolError('not JSON')
const callerAbort = new Error('aborted by the caller')
const lost = new StreamError('TRANSACTION_LOST', 'lost')

const request = (error: unknown, overrides: Partial<FailedRequest> = {}): FailedRequest => ({
  error,
  durationMs: 10,
  continuesStream: true,
  inTransaction: true,
  commits: false,
  isAborted: false,
  ...overrides,
})
const call = (overrides: Partial<QueuedCall> = {}): QueuedCall =>
  ({ kind: 'statements', scope: 'transaction', isReadOnly: false, options: {}, ...overrides }) as QueuedCall
const commit = { kind: 'commit' } as const
const aborted = { options: { signal: AbortSignal.abort(callerAbort) } }

test.each([
  ['an expired stream', expired, {}, 'TRANSACTION_EXPIRED', true],
  ['an unknown baton', invalidBaton, {}, 'TRANSACTION_LOST', true],
  ['an unknown stream', notFound, {}, 'TRANSACTION_LOST', true],
  ['a 502', badGateway, {}, 'TRANSACTION_LOST', false],
  ['a connection reset', connectionReset, {}, 'TRANSACTION_LOST', false],
  ['a 400 for a new stream', invalidBaton, { continuesStream: false }, 'TRANSACTION_LOST', false],
  ['an expired stream outside a transaction', expired, { inTransaction: false }, 'STREAM_EXPIRED', true],
  [
    'a connection reset outside a transaction',
    connectionReset,
    { inTransaction: false },
    'STREAM_LOST',
    false,
  ],
  ['a COMMIT on an expired stream', expired, { commits: true }, 'TRANSACTION_EXPIRED', true],
  [
    'a COMMIT on a stream that may have expired since it was sent',
    expired,
    { commits: true, durationMs: 10_001 },
    'STREAM_CLOSED',
    true,
  ],
  ['a COMMIT with an unknown baton', invalidBaton, { commits: true }, 'STREAM_CLOSED', true],
  ['a COMMIT and a connection reset', connectionReset, { commits: true }, 'STREAM_CLOSED', false],
  ['a COMMIT that was never sent', connectionRefused, { commits: true }, 'TRANSACTION_LOST', false],
  ['an abort with null', null, {}, 'TRANSACTION_LOST', false],
] as const)('the stream after %s', (_, error, overrides, code, isUnknownStream) => {
  expect(classifyFailure(request(error, overrides))).toMatchObject({ code, isUnknownStream })
})

describe('the error of', () => {
  const getError = (
    error: unknown,
    callFields: Partial<QueuedCall>,
    overrides: Partial<FailedRequest> = {},
  ): unknown => {
    const failedRequest = request(error, { commits: callFields.kind === 'commit', ...overrides })
    const rejection = findRejection(call(callFields), classifyFailure(failedRequest))
    return rejection.type === 'error' ? rejection.error : lost
  }

  test.each([
    ['a statement in a transaction whose stream has expired', expired, {}, lost],
    ['a statement in a transaction with an unknown baton', invalidBaton, {}, lost],
    ['a statement in a transaction after a connection reset', connectionReset, {}, lost],
    ['a statement in a transaction after a 502', badGateway, {}, lost],
    ['a statement in a transaction with a malformed response', malformed, {}, lost],
    ['a statement in a transaction that was rejected before it ran', tooManyRequests, {}, tooManyRequests],
    ['a statement in a transaction that was never sent', connectionRefused, {}, connectionRefused],
    ['a statement that shared a request with an aborted one', callerAbort, {}, lost],
    ['an aborted statement in a transaction', callerAbort, aborted, callerAbort],
    ['a COMMIT on an expired stream', expired, commit, lost],
    ['a COMMIT that was never sent', connectionRefused, commit, connectionRefused],
    ['an aborted COMMIT', callerAbort, { ...commit, ...aborted }, callerAbort],
    ['a COMMIT after a connection reset', connectionReset, commit, connectionReset],
    ['a COMMIT after a timeout', timedOut, commit, timedOut],
    ['a COMMIT with a malformed response', malformed, commit, malformed],
    [
      'a read outside a transaction with an unknown baton',
      invalidBaton,
      { scope: 'autocommit', isReadOnly: true },
      lost,
    ],
    ['a write outside a transaction on an expired stream', expired, { scope: 'autocommit' }, lost],
    [
      'a batch outside a transaction after a connection reset',
      connectionReset,
      { scope: 'atomic' },
      connectionReset,
    ],
  ] as const)('%s', (_, error, callFields, expected) => {
    expect(getError(error, callFields)).toBe(expected)
  })

  test.each([
    ['a COMMIT', commit, invalidBaton],
    ['a COMMIT', commit, notFound],
    ['a COMMIT', commit, unauthorized],
    ['a COMMIT', commit, tooManyRequests],
    ['a write outside a transaction', { scope: 'autocommit' }, invalidBaton],
    ['a batch outside a transaction', { scope: 'atomic' }, invalidBaton],
  ] as const)(
    '%s has an unknown outcome after a 4xx status, because a first copy may have arrived',
    (_, callFields, error) => {
      const reason = getError(error, callFields) as DatabaseError
      expect(reason).toBeInstanceOf(HttpError)
      expect(reason).toMatchObject({ outcome: 'unknown', status: error.status, message: error.message })
    },
  )

  test('a 4xx status for the first request of a stream proves that nothing was applied', () => {
    expect(getError(unauthorized, { scope: 'autocommit' }, { continuesStream: false })).toBe(unauthorized)
  })
})
