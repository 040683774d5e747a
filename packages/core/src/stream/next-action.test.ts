import { expect, test } from 'vitest'
import { beginStatement, COMMIT, ROLLBACK, savepointStatement } from '../codec/control.ts'
import { encodeStatement } from '../codec/statement.ts'
import type { QueuedCall } from '../request/queued-call.ts'
import { type Action, nextAction, type StreamState } from './next-action.ts'

const BEGIN = beginStatement()
const SAVEPOINT = savepointStatement('a')
const cursor = {} as QueuedCall['cursor']

/** A write in a transaction, unless said otherwise. */
const call = (given: Partial<QueuedCall> = {}): QueuedCall =>
  ({
    statements: [encodeStatement('insert into t values (1)')],
    scope: 'transaction',
    prefix: [],
    isReadOnly: false,
    ...given,
  }) as QueuedCall
const commit = { statements: [COMMIT], transactionEnd: 'commit' } as const
const rollback = { statements: [ROLLBACK], transactionEnd: 'rollback' } as const
const read = { isReadOnly: true } as const

const closing = { isOpen: false }
const waits = { isWithoutPermit: true }

test.each<[string, Partial<QueuedCall> | null, Partial<StreamState>, Action]>([
  ['nothing queued', null, {}, 'idle'],
  ['nothing queued, closing', null, closing, 'close'],
  ['a statement', {}, {}, 'send'],
  ['a statement, closing', {}, closing, 'send'],
  ['a statement in a transaction without a permit that has begun', {}, waits, 'send'],
  ['a savepoint before a statement', { prefix: [SAVEPOINT] }, waits, 'send'],
  ['BEGIN in front of a write', { prefix: [BEGIN] }, waits, 'acquirePermit'],
  ['BEGIN in front of a write, with a permit', { prefix: [BEGIN] }, {}, 'send'],
  ['BEGIN IMMEDIATE in front of a read', { prefix: [BEGIN], ...read }, waits, 'acquirePermit'],
  ['BEGIN READONLY in front of a read', { prefix: [beginStatement('readonly')], ...read }, waits, 'send'],
  ['BEGIN DEFERRED in front of a write', { prefix: [beginStatement('deferred')] }, waits, 'acquirePermit'],
  ['a batch with its own BEGIN', { prefix: [BEGIN], scope: 'atomic' }, waits, 'send'],
  ['BEGIN in front of COMMIT', { prefix: [BEGIN], ...commit }, waits, 'endLocally'],
  ['BEGIN in front of ROLLBACK, closing', { prefix: [BEGIN], ...rollback }, closing, 'endLocally'],
  ['COMMIT', commit, {}, 'send'],
  ['COMMIT, closing', commit, closing, 'send'],
  ['ROLLBACK', rollback, {}, 'send'],
  ['ROLLBACK, closing', rollback, closing, 'send'],
  ['rows', { cursor, ...read }, {}, 'read'],
  ['rows after a savepoint', { cursor, ...read, prefix: [SAVEPOINT] }, {}, 'sendPrefix'],
  ['rows after BEGIN, without a permit', { cursor, ...read, prefix: [BEGIN] }, waits, 'acquirePermit'],
  ['rows after BEGIN, with a permit', { cursor, ...read, prefix: [BEGIN] }, {}, 'sendPrefix'],
])('%s', (_, head, state, expected) => {
  const queued = head ? call(head) : undefined
  expect(nextAction({ isOpen: true, head: queued, isWithoutPermit: false, ...state })).toBe(expected)
})
