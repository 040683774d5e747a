import { describe, expect, test } from 'vitest'
import { type DatabaseError, HttpError, ProtocolError, StreamError, TransportError } from '../base/errors.ts'
import { callError, classifyFailure, type FailedCall, type FailedRequest } from './classify-failure.ts'

const expired = new HttpError(400, 'h', '{"message":"expired","code":"STREAM_EXPIRED"}')
const invalid = new HttpError(400, 'h', 'Received an invalid baton')
const missing = new HttpError(404, 'h', '{"error":"stream not found"}')
const busy = new HttpError(429, 'h', '')
const denied = new HttpError(401, 'h', '')
const gateway = new HttpError(502, 'h', '')
const rejected = new TransportError('NETWORK', 'connection refused', 'not_applied')
const broken = new TransportError('NETWORK', 'connection reset', 'unknown')
const late = new TransportError('TIMEOUT', 'late', 'unknown')
const nonsense = new ProtocolError('no JSON')
const mine = new Error('mine')
const lost = new StreamError('TRANSACTION_LOST', 'lost')

const request = (error: unknown, more: Partial<FailedRequest> = {}): FailedRequest => ({
  error,
  durationMs: 10,
  continuesStream: true,
  inTransaction: true,
  commits: false,
  ...more,
})
const call = (more: Partial<FailedCall> = {}): FailedCall => ({
  scope: 'transaction',
  isReadOnly: false,
  options: {},
  ...more,
})
const commit = { transactionEnd: 'commit' } as const
const isAborted = { options: { signal: AbortSignal.abort(mine) } }

test.each([
  ['an expired stream', expired, {}, 'TRANSACTION_EXPIRED', true],
  ['an unknown baton', invalid, {}, 'TRANSACTION_LOST', true],
  ['an unknown stream', missing, {}, 'TRANSACTION_LOST', true],
  ['a gateway', gateway, {}, 'TRANSACTION_LOST', false],
  ['a broken connection', broken, {}, 'TRANSACTION_LOST', false],
  ['a bad request on a new stream', invalid, { continuesStream: false }, 'TRANSACTION_LOST', false],
  ['an expired stream outside a transaction', expired, { inTransaction: false }, 'STREAM_EXPIRED', true],
  ['anything outside a transaction', broken, { inTransaction: false }, 'STREAM_LOST', false],
  ['a commit, expired', expired, { commits: true }, 'TRANSACTION_EXPIRED', true],
  [
    'a commit, expired so late that it may have been a repetition',
    expired,
    { commits: true, durationMs: 10_001 },
    'STREAM_CLOSED',
    true,
  ],
  ['a commit, unknown baton', invalid, { commits: true }, 'STREAM_CLOSED', true],
  ['a commit, broken connection', broken, { commits: true }, 'STREAM_CLOSED', false],
  ['a commit that was never sent', rejected, { commits: true }, 'TRANSACTION_LOST', false],
  ['an abort with null', null, {}, 'TRANSACTION_LOST', false],
] as const)('the stream after %s', (_, error, more, code, isUnknownStream) => {
  expect(classifyFailure(request(error, more))).toMatchObject({ code, isUnknownStream })
})

describe('a call', () => {
  const errorOf = (
    error: unknown,
    given: Partial<FailedCall>,
    more: Partial<FailedRequest> = {},
  ): unknown => {
    const failed = request(error, { commits: given.transactionEnd === 'commit', ...more })
    return callError(call(given), failed, classifyFailure(failed), lost)
  }

  test.each([
    ['transaction', expired, {}, lost],
    ['transaction', invalid, {}, lost],
    ['transaction', broken, {}, lost],
    ['transaction', gateway, {}, lost],
    ['transaction', nonsense, {}, lost],
    ['inside, rejected before it ran', busy, {}, busy],
    ['inside, never sent', rejected, {}, rejected],
    ['inside, of another aborted call', mine, {}, lost],
    ['inside, aborted', mine, isAborted, mine],
    ['a commit, expired', expired, commit, lost],
    ['a commit, never sent', rejected, commit, rejected],
    ['a commit, aborted', mine, { ...commit, ...isAborted }, mine],
    ['a commit, broken', broken, commit, broken],
    ['a commit, late', late, commit, late],
    ['a commit, nonsense', nonsense, commit, nonsense],
    ['a read outside, stream gone', invalid, { scope: 'autocommit', isReadOnly: true }, lost],
    ['a write outside, expired', expired, { scope: 'autocommit' }, lost],
    ['a write outside, broken', broken, { scope: 'atomic' }, broken],
  ] as const)('%s: %s', (_, error, given, expected) => {
    expect(errorOf(error, given)).toBe(expected)
  })

  test.each([
    ['a commit: its first copy may have arrived', commit, invalid],
    ['a commit', commit, missing],
    ['a commit', commit, denied],
    ['a commit', commit, busy],
    ['a write outside a transaction', { scope: 'autocommit' }, invalid],
    ['a batch outside a transaction', { scope: 'atomic' }, invalid],
  ] as const)('%s, refused by status: it is not known whether it ran', (_, given, error) => {
    const reason = errorOf(error, given) as DatabaseError
    expect(reason).toBeInstanceOf(HttpError)
    expect(reason).toMatchObject({ outcome: 'unknown', status: error.status, message: error.message })
  })

  test('the first write of a stream is certainly rejected', () => {
    expect(errorOf(denied, { scope: 'autocommit' }, { continuesStream: false })).toBe(denied)
  })
})
