import { expect, test } from 'vitest'
import { readEventLog } from './page/event-log.ts'
import {
  type Effect,
  findProblem,
  type RequestEvent,
  type ResponseEvent,
  type ShownStatement,
  WireModel,
  type WireRequest,
} from './page/wire-model.ts'

const statement = (...effects: readonly Effect[]): ShownStatement => ({ sql: effects.join(), effects })

const request = (
  n: number,
  stream: number | null,
  ...statements: readonly ShownStatement[]
): RequestEvent => ({
  type: 'request',
  n,
  at: n,
  database: 'app',
  method: 'POST',
  path: '/v3/pipeline',
  stream,
  bytes: 0,
  statements,
  more: 0,
})

const response = (n: number, values: Partial<ResponseEvent> = {}): ResponseEvent => ({
  type: 'response',
  n,
  at: n + 0.5,
  status: 200,
  bytes: 0,
  rows: 0,
  rowsRead: 0,
  rowsWritten: 0,
  outcomes: ['ok'],
  error: null,
  isOpen: true,
  isAutocommit: false,
  ...values,
})

/** A model with a transaction on stream 1 that holds the write lock. */
function modelWithWriter(): WireModel {
  const model = new WireModel()
  model.begin(request(1, 1, statement('begin-write')))
  model.end(response(1))
  return model
}

test('lists the requests that wait for a write lock held by another stream, oldest first', () => {
  const model = modelWithWriter()
  model.begin(request(2, 2, statement('begin-write')))
  model.begin(request(3, 3, statement('other'), statement('write')))
  model.begin(request(4, 4, statement('other')))
  model.begin(request(5, 1, statement('write')))
  expect(model.findWaiters('app').map(({ n }) => n)).toEqual([2, 3])
  expect(model.findWaiters('other')).toEqual([])
})

test.each([
  [200, 'rolled back'],
  [502, 'lost'],
])('a transaction whose stream is closed by a response with status %i is %s', (status, state) => {
  const model = modelWithWriter()
  model.begin(request(2, 1, statement('other')))
  model.end(response(2, { status, isOpen: false }))
  expect([model.spans[0]?.state, model.holders.size]).toEqual([state, 0])
})

test('a transaction whose BEGIN was rejected holds no lock, even if a later statement of its request wrote', () => {
  const model = new WireModel()
  model.begin(request(1, 1, statement('begin-write'), statement('write')))
  model.end(response(1, { outcomes: [{ code: 'SQLITE_BUSY', message: '' }, 'ok'], isAutocommit: true }))
  model.begin(request(2, 2, statement('write')))
  expect([model.spans, model.holders.size, model.findWaiters('app')]).toEqual([[], 0, []])
})

test('a transaction whose first write violates a constraint holds the write lock, unless that ended it', () => {
  const model = new WireModel()
  const outcomes = [{ code: 'SQLITE_CONSTRAINT_UNIQUE', message: '' }]
  model.begin(request(1, 1, statement('begin')))
  model.end(response(1))
  model.begin(request(2, 1, statement('write')))
  model.end(response(2, { outcomes: [{ code: 'SQLITE_ERROR', message: '' }] }))
  expect(model.holders.size).toBe(0)
  model.begin(request(3, 1, statement('write')))
  model.end(response(3, { outcomes }))
  model.begin(request(4, 2, statement('write')))
  expect([model.holders.get('app')?.stream, model.findWaiters('app').map(({ n }) => n)]).toEqual([1, [4]])
  model.begin(request(5, 1, statement('write')))
  model.end(response(5, { outcomes, isAutocommit: true }))
  expect(model.holders.size).toBe(0)
})

test('a violated constraint shows what the text before the write has done: BEGIN, or nothing', () => {
  const model = new WireModel()
  const outcomes = [{ code: 'SQLITE_CONSTRAINT_CHECK', message: '' }]
  const violate = (n: number, ...effects: readonly Effect[]): void => {
    model.begin(request(n, n, statement(...effects)))
    model.end(response(n, { outcomes, isAutocommit: null }))
  }
  violate(1, 'write', 'begin')
  violate(2, 'begin', 'other', 'commit')
  expect([model.holders.size, model.spans]).toEqual([0, []])
  violate(3, 'begin', 'other', 'write', 'commit')
  expect([model.holders.get('app')?.stream, model.spans[0]?.state]).toEqual([3, 'open'])
})

test('the last 1,000 requests are kept, and those without a response', () => {
  const model = new WireModel()
  model.begin(request(1, 1, statement('begin-write')))
  for (let n = 2; n <= 1_002; n += 1) {
    model.begin(request(n, null))
    model.end(response(n))
  }
  expect([model.requests.size, model.requests.has(1), model.requests.has(3)]).toEqual([1_000, true, false])
  model.end(response(1, { isOpen: false }))
  expect(model.streams.size).toBe(0)
})

test('the problem of a request is its error, its failed statement or, once it has ended, its status', () => {
  const problemOf = (values: Partial<WireRequest>): string | null =>
    findProblem({ outcomes: [], error: null, status: null, end: null, ...values } as WireRequest)
  expect(problemOf({ error: 'fetch failed' })).toBe('fetch failed')
  expect(problemOf({ error: 'busy', status: 503 })).toBe('503 busy')
  expect(problemOf({ outcomes: ['ok', { code: 'SQLITE_BUSY', message: 'busy' }] })).toBe('SQLITE_BUSY: busy')
  // the client may retry the request
  expect(problemOf({ status: 404 })).toBeNull()
  expect(problemOf({ status: 404, end: 1 })).toBe('404')
  expect(problemOf({ status: 200, end: 1 })).toBeNull()
})

test('in an event log, calls are assigned to their transaction, which holds the write lock', async () => {
  const events = [
    { at: 0, type: 'transaction:begin', id: 6 },
    { at: 1, type: 'transaction:begin', id: 7 },
    { at: 2, type: 'query:start', id: 1, sql: ['insert'], inTransaction: true, transaction: 7 },
    { at: 3, type: 'query:end', id: 1, rows: 0 },
    { at: 4, type: 'transaction:commit', id: 7 },
    { at: 5, type: 'query:start', id: 2, sql: 'select', inTransaction: false, transaction: null },
  ]
  const { model } = await readEventLog(
    new File([events.map((event) => JSON.stringify(event)).join('\n')], 'app'),
  )
  expect(model.spans).toMatchObject([
    { begin: 0, lockSince: null },
    { begin: 1, end: 4, lockSince: 1, state: 'committed' },
  ])
  expect([...model.requests.values()].map(({ span }) => span?.begin ?? null)).toEqual([1, null])
})

test('calls of several processes in one event log are all kept, although their ids are equal', async () => {
  const run = (at: number) => [
    { at, type: 'query:start', id: 1, sql: [`select ${at}`] },
    { at: at + 1, type: 'query:end', id: 1, rows: at },
  ]
  const text = [...run(0), ...run(10)].map((event) => JSON.stringify(event)).join('\n')
  const { model, skipped } = await readEventLog(new File([text], 'app'))
  expect(skipped).toBe(0)
  expect([...model.requests.values()].map(({ at, end, rows }) => [at, end, rows])).toEqual([
    [0, 1, 0],
    [10, 11, 10],
  ])
})

test('in an event log, a call ends although another process has begun one with a lower id meanwhile', async () => {
  const events = [
    { at: 0, type: 'query:start', id: 7, sql: ['select 1'] },
    { at: 1, type: 'query:start', id: 1, sql: ['select 2'] },
    { at: 2, type: 'query:end', id: 1 },
    { at: 3, type: 'query:end', id: 7, rows: 3 },
  ]
  const text = events.map((event) => JSON.stringify(event)).join('\n')
  const { model } = await readEventLog(new File([text], 'app'))
  expect([...model.requests.values()]).toMatchObject([{ end: 3, rows: 3 }, { end: 2 }])
})
