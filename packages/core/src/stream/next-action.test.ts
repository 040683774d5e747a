import { expect, test } from 'vitest'
import { beginStatement, COMMIT, ROLLBACK, savepointStatement } from '../codec/control.ts'
import { encodeStatement } from '../codec/statement.ts'
import type { QueuedCall } from '../request/queued-call.ts'
import { type Action, nextAction, type StreamState } from './next-action.ts'

const BEGIN = beginStatement()
const SAVEPOINT = savepointStatement('a')
const cursor = {} as QueuedCall['cursor']

/** A write in a transaction, unless overridden. */
const call = (overrides: Partial<QueuedCall> = {}): QueuedCall =>
  ({
    statements: [encodeStatement('insert into t values (1)')],
    scope: 'transaction',
    prefix: [],
    isReadOnly: false,
    ...overrides,
  }) as QueuedCall
const commit = { statements: [COMMIT], transactionEnd: 'commit' } as const
const rollback = { statements: [ROLLBACK], transactionEnd: 'rollback' } as const
const read = { isReadOnly: true } as const

const closing = { isOpen: false }
const noPermit = { isWithoutPermit: true }

test.each<[string, Partial<QueuedCall> | null, Partial<StreamState>, Action]>([
  ['nothing queued', null, {}, 'idle'],
  ['nothing queued while closing', null, closing, 'close'],
  ['a statement', {}, {}, 'send'],
  ['a statement while closing', {}, closing, 'send'],
  ['a statement in a transaction without a permit that has begun', {}, noPermit, 'send'],
  ['a savepoint before a statement', { prefix: [SAVEPOINT] }, noPermit, 'send'],
  ['BEGIN before a write', { prefix: [BEGIN] }, noPermit, 'acquirePermit'],
  ['BEGIN before a write with a permit', { prefix: [BEGIN] }, {}, 'send'],
  ['BEGIN IMMEDIATE before a read', { prefix: [BEGIN], ...read }, noPermit, 'acquirePermit'],
  ['BEGIN READONLY before a read', { prefix: [beginStatement('readonly')], ...read }, noPermit, 'send'],
  ['BEGIN DEFERRED before a write', { prefix: [beginStatement('deferred')] }, noPermit, 'acquirePermit'],
  ['a batch with its own BEGIN', { prefix: [BEGIN], scope: 'atomic' }, noPermit, 'send'],
  ['BEGIN before COMMIT', { prefix: [BEGIN], ...commit }, noPermit, 'endLocally'],
  ['BEGIN before ROLLBACK while closing', { prefix: [BEGIN], ...rollback }, closing, 'endLocally'],
  ['COMMIT', commit, {}, 'send'],
  ['COMMIT while closing', commit, closing, 'send'],
  ['ROLLBACK', rollback, {}, 'send'],
  ['ROLLBACK while closing', rollback, closing, 'send'],
  ['rows', { cursor, ...read }, {}, 'read'],
  ['rows of a statement that was not parsed', { cursor, ...read, isUnparsed: true }, {}, 'sendPrefix'],
  ['rows on a new stream', { cursor, ...read, isUnparsed: true }, { isContinued: false }, 'read'],
  ['rows after a savepoint', { cursor, ...read, prefix: [SAVEPOINT] }, {}, 'sendPrefix'],
  ['rows after BEGIN without a permit', { cursor, ...read, prefix: [BEGIN] }, noPermit, 'acquirePermit'],
  ['rows after BEGIN with a permit', { cursor, ...read, prefix: [BEGIN] }, {}, 'sendPrefix'],
])('%s', (_, head, state, expected) => {
  const queued = head ? call(head) : undefined
  expect(
    nextAction({ isOpen: true, head: queued, isContinued: true, isWithoutPermit: false, ...state }),
  ).toBe(expected)
})
