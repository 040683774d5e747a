import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { ManualClock, settle } from '../../test-support/manual-clock.ts'
import { batchResponse, isNever, type ScriptedStep } from '../../test-support/scripted-batch.ts'
import { readRows } from '../client/read-rows.ts'
import { getServerStream, Stream } from '../client/stream.ts'
import { Transaction } from '../client/transaction.ts'
import { type ClientConfig, resolveConfig } from '../config.ts'
import { Http } from '../http/http.ts'
import type { ClientEvent } from '../observe/events.ts'
import { ServerStream } from './server-stream.ts'

// The states of a stream, with a server whose responses are sent by the test.

interface Request {
  readonly sql: readonly string[]
  readonly closes: boolean
  /** Responds that each step succeeded, except the one with this SQL. */
  respond(rejected?: string): Promise<void>
  /** Rejects the request as a whole. */
  reject(error: object): Promise<void>
  /** Responds to a request for rows with one row, and keeps the body open. */
  sendRow(): Promise<void>
  /** Ends the body that `sendRow` opened. */
  endRows(): void
  status(code: number, text: string): Promise<void>
}

const openedClients: { readonly http: Http; readonly clock: ManualClock }[] = []
afterEach(async () => {
  for (const { http, clock } of openedClients.splice(0)) {
    const closed = http.close(0)
    await clock.advance(10_000)
    await closed
  }
})

function start(config: Partial<ClientConfig> = {}) {
  const clock = new ManualClock()
  const requests: Request[] = []
  const events: ClientEvent[] = []
  const http = new Http(
    resolveConfig({
      url: 'http://x',
      observe: (event) => events.push(event),
      fetch: (_, { body = '' }) =>
        new Promise((resolve) => {
          requests.push(
            scriptedRequest(body, requests.length, (status, text, end = Promise.resolve()) =>
              resolve({ status, text: async () => text, body: createBody(text, end) }),
            ),
          )
        }),
      ...config,
    }),
    clock,
  )
  openedClients.push({ http, clock })
  const newStream = (): Stream => new Stream(new ServerStream(http))
  /** Returns streams that have begun a transaction. */
  const beginStreams = (count: number): Stream[] =>
    Array.from({ length: count }, () => {
      const stream = newStream()
      stream.begin()
      return stream
    })
  /** Returns the next request that was sent. */
  const next = async (): Promise<Request> => {
    await settle()
    const request = requests.shift()
    if (!request) throw new Error('nothing was sent')
    return request
  }
  /** Responds to the next request, and waits for its call. @param sql the statements that the request must have */
  const answer = async (call: Promise<unknown> | undefined, sql?: readonly string[]): Promise<void> => {
    const request = await next()
    if (sql !== undefined) expect(request.sql).toEqual(sql)
    await request.respond()
    await call
  }
  const transactionEvents = () =>
    events.flatMap((event) =>
      event.type.startsWith('transaction:') ? [`${event.type} ${'id' in event ? event.id : ''}`] : [],
    )
  const stream = newStream()
  return { clock, http, stream, newStream, beginStreams, next, answer, requests, transactionEvents }
}

const insert = (a: number): string => `insert into t values (${a})`

/** Starts a transaction that has written, and therefore holds the write lock. */
async function startWithWrite(config?: Partial<ClientConfig>) {
  const context = start(config)
  context.stream.begin()
  await context.answer(context.stream.execute(insert(1)))
  return context
}

async function* linesUntil(text: string, end: Promise<string | void>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder()
  yield encoder.encode(text)
  yield encoder.encode((await end) ?? '')
}

const createBody = (text: string, end: Promise<string | void>): ReadableStream<Uint8Array> =>
  ReadableStream.from(linesUntil(text, end))

function scriptedRequest(
  body: string,
  count: number,
  send: (status: number, text: string, end?: Promise<string | void>) => void,
): Request {
  const { batch: rows, requests = [{ type: 'batch', ...(rows && { batch: rows }) }] } = JSON.parse(body) as {
    /** The statement of a request for rows. */
    batch?: { steps: ScriptedStep[] }
    requests?: { type: string; batch?: { steps: ScriptedStep[] }; stmt?: { sql: string } }[]
  }
  // without the statement that shows why a COMMIT was skipped, and those that are never run
  const steps = requests.flatMap(({ batch, stmt }) =>
    batch
      ? batch.steps.flatMap(({ condition, stmt: { sql } }) =>
          condition?.type === 'and' || isNever(condition) ? [] : sql,
        )
      : (stmt?.sql ?? []),
  )
  const closes = requests.at(-1)?.type === 'close'
  const end = Promise.withResolvers<string>()
  const result = { cols: [], rows: [], affected_row_count: 1, last_insert_rowid: null }
  const violation = { message: 'FOREIGN KEY constraint failed', code: 'SQLITE_CONSTRAINT' }
  const results = (rejected: string | undefined) =>
    requests.map(({ type, batch }) => ({
      type: 'ok',
      response: {
        type,
        result: batch
          ? batchResponse(batch.steps, result, (sql) => (sql === rejected ? violation : null))
          : result,
      },
    }))
  return {
    sql: steps,
    closes,
    async respond(rejected) {
      send(
        200,
        JSON.stringify({ baton: closes ? null : `b${count}`, base_url: null, results: results(rejected) }),
      )
      await settle()
    },
    async reject(error) {
      const results = requests.map(() => ({ type: 'error', error }))
      send(200, JSON.stringify({ baton: `b${count}`, base_url: null, results }))
      await settle()
    },
    async sendRow() {
      const entries = [
        { baton: `b${count}`, base_url: null },
        {
          type: 'step_begin',
          step: rows?.steps.findIndex(({ condition }) => !isNever(condition)),
          cols: [{ name: 'a' }],
        },
        { type: 'row', row: [{ type: 'integer', value: '1' }] },
      ]
      send(200, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''), end.promise)
      await settle()
    },
    endRows() {
      end.resolve('{"type":"step_end","affected_row_count":1,"last_insert_rowid":null}\n')
    },
    async status(code, text) {
      send(code, text)
      await settle()
    },
  }
}

const streamClosed = { code: 'STREAM_CLOSED' }
const timedOut = { code: 'TIMEOUT', outcome: 'not_applied' }
const abortReason = new Error('changed my mind')

/** Makes a call with a signal. @returns a function that aborts the call, and waits for its rejection */
function abortable(makeCall: (options: { signal: AbortSignal }) => Promise<unknown>): () => Promise<void> {
  const controller = new AbortController()
  const rejected = expect(makeCall({ signal: controller.signal })).rejects.toBe(abortReason)
  return async () => {
    controller.abort(abortReason)
    await rejected
  }
}

describe('an aborted commit', () => {
  test('that is in flight rejects later calls, and closes its stream when the response arrives', async () => {
    const { stream, next, requests } = await startWithWrite()
    const abort = abortable((options) => stream.commit(options))
    const request = await next()
    expect(request.sql).toEqual(['COMMIT'])
    await abort()
    // otherwise the statement would be acknowledged in a transaction that is never committed
    await expect(stream.execute(insert(2))).rejects.toMatchObject(streamClosed)
    expect(() => stream.begin()).toThrow(/COMMIT/)
    expect([stream.inTransaction, stream.isOpen]).toEqual([false, false])
    await settle()
    expect(requests).toEqual([])
    await request.respond()
    expect(await next()).toMatchObject({ sql: [], closes: true })
  })

  test('that was not sent leaves the transaction unchanged', async () => {
    const { stream, clock, next, answer } = start()
    stream.begin()
    const slow = stream.execute(insert(1))
    const first = await next()
    const commit = stream.commit({ timeoutMs: 20 })
    const later = stream.execute('insert into log values (1)')
    const rejected = Promise.all([
      expect(commit).rejects.toMatchObject(timedOut),
      expect(later).rejects.toMatchObject({
        code: 'TRANSACTION_LOST',
        message: expect.stringContaining('not run'),
      }),
    ])
    await clock.advance(20)
    await rejected
    expect(stream.inTransaction).toBe(true)
    await first.respond()
    await slow
    await answer(stream.execute(insert(2)), [insert(2)])
    await answer(stream.commit())
    expect(stream.inTransaction).toBe(false)
  })

  test('that rejects before it is queued leaves the transaction unchanged', async () => {
    const { stream } = start()
    stream.begin()
    await expect(stream.commit({ timeoutMs: 0 })).rejects.toThrow(TypeError)
    await expect(stream.commit({ signal: AbortSignal.abort(abortReason) })).rejects.toBe(abortReason)
    expect(stream.inTransaction).toBe(true)
  })
})

describe('a COMMIT that may have been duplicated in transit', () => {
  test.each([
    [400, 'Received an invalid baton'],
    [400, 'Received a baton that has already been used'],
    [404, '{"error":"stream not found"}'],
    [401, 'token expired'],
    [429, ''],
  ])('has an unknown outcome if its second copy gets %i %s', async (status, text) => {
    const { stream, next } = await startWithWrite({ maxRetries: 0 })
    const rejection = { name: 'HttpError', status, outcome: 'unknown' }
    const commit = expect(stream.commit()).rejects.toMatchObject(rejection)
    await (await next()).status(status, text)
    await commit
    await expect(stream.execute('select 1')).rejects.toMatchObject(streamClosed)
  })

  test('is not applied if its stream had certainly expired before it was sent', async () => {
    const { stream, next } = await startWithWrite()
    const rejection = { code: 'TRANSACTION_EXPIRED', outcome: 'not_applied' }
    const commit = expect(stream.commit()).rejects.toMatchObject(rejection)
    await (await next()).status(400, '{"message":"The stream has expired","code":"STREAM_EXPIRED"}')
    await commit
  })
})

test('the time limit of a transaction no longer applies once it has ended', async () => {
  const { stream, next, answer } = await startWithWrite()
  expect(stream.expiresAt).toEqual(expect.any(Number))
  await answer(stream.commit())
  expect(stream.expiresAt).toBeNull()
  const lost = { code: 'STREAM_LOST', elapsedMs: null }
  const read = expect(stream.execute('select 1')).rejects.toMatchObject(lost)
  await (await next()).status(400, 'Received an invalid baton')
  await read
  expect(stream.expiresAt).toBeNull()
})

test.each([
  [404, '../codec/v2-guard.ts'],
  [400, './execute-only.ts'],
])(
  'if a server responds with %i, and the module for such servers cannot be loaded, the call rejects',
  async (status, path) => {
    vi.doMock(path, () => expect.fail('not found'))
    onTestFinished(() => vi.doUnmock(path))
    const { newStream, next } = start()
    const stream = newStream()
    const call = expect(stream.batch([insert(1)])).rejects.toThrow('mocking a module')
    await (await next()).status(status, '')
    await call
    await stream.close()
  },
)

test('no transaction begins until the previous one has ended', async () => {
  const { stream, next, transactionEvents, answer } = await startWithWrite()
  const commit = expect(stream.commit()).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT' })
  expect(() => stream.begin()).toThrow(/still ending/)
  await (await next()).respond('COMMIT')
  await commit
  expect(stream.inTransaction).toBe(true)
  await answer(stream.commit())
  stream.begin()
  const id = (index: number): string => transactionEvents()[index]?.split(' ')[1] ?? ''
  expect(transactionEvents()).toEqual([
    `transaction:begin ${id(0)}`,
    `transaction:commit ${id(0)}`,
    `transaction:begin ${id(2)}`,
  ])
  expect(id(2)).not.toBe(id(0))
})

test('a rollback while the COMMIT is in flight waits for its response, and rolls back if the COMMIT was rejected', async () => {
  const { stream, next, transactionEvents, answer } = await startWithWrite()
  const commit = expect(stream.commit()).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT' })
  const rollback = stream.rollback()
  await (await next()).respond('COMMIT')
  await commit
  await answer(rollback, ['ROLLBACK'])
  expect(transactionEvents().at(-1)).toMatch('transaction:rollback')
})

test('a rollback waits for the COMMIT in flight, although a second COMMIT was rejected', async () => {
  const { stream, answer, requests } = await startWithWrite()
  const commit = stream.commit()
  await expect(stream.commit()).rejects.toThrow(TypeError)
  await answer(Promise.all([commit, stream.rollback()]))
  expect([stream.isOpen, requests]).toEqual([true, []])
})

test('a transaction that is idle after its rows were read expires', async () => {
  const { stream, next, clock, transactionEvents } = await startWithWrite({ transactionTimeoutMs: 1_000 })
  const rows = readRows(stream, 'select 1')
  const row = rows.next()
  await (await next()).respond()
  const request = await next()
  await request.sendRow()
  await row
  // the timer that was set before the rows fires while they are read
  await clock.advance(900)
  request.endRows()
  await rows.next().catch(() => {})
  await clock.advance(0)
  expect(transactionEvents().at(-1)).toMatch('transaction:expiring')
  await clock.advance(100)
  expect(transactionEvents().at(-1)).toMatch('transaction:lost')
})

test('a queued cursor is aborted by its signal while the server parses its statement', async () => {
  const { stream, next, answer } = await startWithWrite()
  const write = stream.execute(insert(2))
  await settle()
  const abort = abortable((options) => readRows(stream, 'select 1', [], options).next())
  await answer(write)
  const parse = await next()
  await abort()
  await parse.respond()
  await answer(stream.execute(insert(3)), [insert(3)])
})

test('the close of a stream that has lost its transaction is sent separately', async () => {
  const { stream, next, clock, transactionEvents } = await startWithWrite({ transactionTimeoutMs: 1_000 })
  await clock.advance(799)
  expect(transactionEvents()).toHaveLength(1)
  await clock.advance(1)
  expect(transactionEvents().at(-1)).toMatch('transaction:expiring')
  await clock.advance(200)
  expect(transactionEvents().at(-1)).toMatch('transaction:lost')
  expect(await next()).toMatchObject({ sql: [], closes: true })
  await expect(stream.execute('select 1')).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED' })
})

test('a transaction that waits for the write lock sends nothing, and its timeout has not started', async () => {
  const { beginStreams, next, answer, requests, clock } = start({ requestTimeoutMs: 100 })
  const streams = beginStreams(3)
  const calls = streams.map((stream) => stream.execute(insert(1)))
  for (const call of calls.slice(0, 2)) await answer(call)
  await clock.advance(900)
  expect(requests).toEqual([])
  await answer(streams[0]?.rollback())
  const lastRequest = await next()
  expect(lastRequest.sql).toEqual(['BEGIN IMMEDIATE', insert(1)])
  await clock.advance(99)
  await lastRequest.respond()
  await calls[2]
})

test('calls queued behind a request that has no response yet reject at their own timeouts and signals', async () => {
  const { stream, next, answer, requests, clock } = start({ requestTimeoutMs: 1_000 })
  const first = stream.execute('select 1')
  // calls outside a transaction never share a request
  const lateCall = expect(stream.execute('select 2', [], { timeoutMs: 200 })).rejects.toMatchObject(timedOut)
  const abort = abortable((options) => stream.execute('select 3', [], options))
  const lastCall = stream.execute('select 4')
  const request = await next()
  await clock.advance(200)
  await lateCall
  await abort()
  await request.respond()
  await first
  await answer(lastCall, ['select 4'])
  expect(requests).toEqual([])
})

test('the time limits of calls queued while a transaction waits for the write lock start when it acquires the lock', async () => {
  const { clock, third, rollBackFirst, next } = await openFourStreams({ requestTimeoutMs: 300 })
  const calls = [third.execute(insert(2)), third.execute(insert(3))]
  const abort = abortable((options) => third.execute(insert(4), [], options))
  await clock.advance(1_000)
  await abort()
  await rollBackFirst()
  const request = await next()
  expect(request.sql).toEqual(['BEGIN IMMEDIATE', insert(2), insert(3)])
  const lateCall = expect(third.execute('select 1', [], { timeoutMs: 50 })).rejects.toMatchObject(timedOut)
  await clock.advance(50)
  await lateCall
  await request.respond()
  await Promise.all(calls)
})

test('a transaction that stopped waiting does not affect the next one on its stream', async () => {
  const { stream, rollBackFirst, answer, clock } = await openFourStreams({ requestTimeoutMs: 300 })
  stream.begin()
  const abort = abortable((options) => stream.execute(insert(2), [], options))
  await settle()
  await abort()
  await stream.rollback()
  stream.begin()
  const call = stream.execute(insert(3))
  // its timeout has not started either
  await clock.advance(1_000)
  await rollBackFirst()
  await answer(call, ['BEGIN IMMEDIATE', insert(3)])
  expect(await call).toMatchObject({ rowsAffected: 1 })
})

/** Two streams that hold the write permits, and two more that have begun. */
async function openFourStreams(config?: Partial<ClientConfig>) {
  const context = start(config)
  const [first, second, third, fourth] = context.beginStreams(4) as [Stream, Stream, Stream, Stream]
  const calls = [first, second].map((stream) => stream.execute(insert(1)))
  for (const call of calls) await context.answer(call)
  /** Rolls back the first transaction, which releases its write permit. */
  const rollBackFirst = (): Promise<void> => context.answer(first.rollback())
  return { ...context, third, fourth, rollBackFirst }
}

test('a transaction that is rolled back while it waits lets the next one write, and its stream stays open', async () => {
  const { third, fourth, rollBackFirst, answer } = await openFourStreams()
  const rejected = expect(third.execute(insert(2))).rejects.toMatchObject(streamClosed)
  await settle()
  await third.rollback()
  await rejected
  const call = fourth.execute(insert(3))
  await rollBackFirst()
  await answer(call, ['BEGIN IMMEDIATE', insert(3)])
  expect(third.isOpen).toBe(true)
})

test('a transaction whose call is aborted while it waits releases its place in the queue', async () => {
  const { third, fourth, rollBackFirst, answer } = await openFourStreams({ queueLimit: 1 })
  await abortable((options) => third.execute(insert(2), undefined, options))()
  const call = fourth.execute(insert(3))
  await settle()
  await rollBackFirst()
  await answer(call, ['BEGIN IMMEDIATE', insert(3)])
})

test('a COMMIT that was queued before the write lock was acquired can be aborted after the statement that it waits for', async () => {
  const { third, rollBackFirst, next } = await openFourStreams()
  const write = third.execute(insert(2))
  const abortCommit = abortable((options) => third.commit(options))
  await rollBackFirst()
  const request = await next()
  expect(request.sql).toEqual(['BEGIN IMMEDIATE', insert(2)])
  await abortCommit()
  expect(third.inTransaction).toBe(true)
  await request.respond()
  await write
})

test('a transaction that no longer needs the write lock stops waiting for it, and the time limits of its calls begin', async () => {
  const { clock, fourth, next, answer, stream, third, rollBackFirst } = await openFourStreams()
  stream.begin('deferred')
  const abortWrite = abortable((options) => stream.execute(insert(2), [], options))
  const read = stream.execute('select 1')
  const limits = { signal: new AbortController().signal, timeoutMs: 100 }
  const failures: unknown[] = []
  stream.commit(limits).catch((error: unknown) => failures.push(error))
  await clock.advance(1_000)
  await abortWrite()
  const request = await next()
  expect(request.sql).toEqual(['BEGIN DEFERRED', 'select 1'])
  // the read is in flight
  await clock.advance(100)
  expect(failures).toMatchObject([{ code: 'TIMEOUT' }])
  await request.respond()
  await read
  // its place in the queue is free
  const writes = [third, fourth].map((waiting) => waiting.execute(insert(3)))
  await rollBackFirst()
  await answer(writes[0], ['BEGIN IMMEDIATE', insert(3)])
  void writes[1]?.catch(() => {})
})

test('a stream has its own queue, which is full at queueLimit; COMMIT and ROLLBACK are always accepted', async () => {
  const { stream, next, answer } = start({ queueLimit: 2 })
  stream.begin()
  const first = stream.execute(insert(1))
  const request = await next()
  const waiting = [stream.execute(insert(2)), stream.execute(insert(3))]
  await expect(stream.execute(insert(4))).rejects.toMatchObject({ code: 'QUEUE_FULL' })
  const commit = stream.commit()
  await request.respond()
  await first
  await answer(Promise.all(waiting))
  await answer(commit)
})

test('a transaction whose first call was aborted while it was queued lets others write', async () => {
  const { newStream, next, answer, clock } = start()
  // each of these streams acquires one of the two write permits
  for (const stream of [newStream(), newStream()]) {
    void stream.execute('select 1').catch(() => {})
    await next()
    stream.begin()
    const write = expect(stream.execute(insert(1), [], { timeoutMs: 50 })).rejects.toMatchObject(timedOut)
    await clock.advance(50)
    await write
  }
  const nextStream = newStream()
  nextStream.begin()
  await answer(nextStream.execute(insert(2)), ['BEGIN IMMEDIATE', insert(2)])
})

test('if a response never arrives, the call ends at its timeout, and the request some time later', async () => {
  const { stream, next, answer, clock, newStream } = start({ requestTimeoutMs: 1_000 })
  stream.begin()
  const lost = expect(stream.execute(insert(1))).rejects.toMatchObject({
    code: 'TRANSACTION_LOST',
    cause: { code: 'TIMEOUT', outcome: 'unknown' },
  })
  const request = await next()
  await clock.advance(1_000)
  await lost
  const nextStream = newStream()
  nextStream.begin()
  await answer(nextStream.execute(insert(2)))
  // the first stream still holds one of the two write permits
  await request.respond()
  expect(await next()).toMatchObject({ closes: true })
})

describe('a response that does not show what ran', () => {
  const tooLarge = { message: 'Response is too large', code: 'RESPONSE_TOO_LARGE' }
  /** A transaction that has written, or has not begun yet. */
  const startTransaction = async ({ hasWritten }: { hasWritten: boolean }) => {
    if (hasWritten) return await startWithWrite()
    const context = start()
    context.stream.begin()
    return context
  }

  test.each([
    { hasWritten: true, savepoint: false },
    { hasWritten: true, savepoint: true },
    { hasWritten: false, savepoint: false },
  ])(
    'to a single read rejects the read, and the transaction continues (%o)',
    async ({ hasWritten, savepoint }) => {
      const { stream, next, answer } = await startTransaction({ hasWritten })
      if (savepoint) stream.savepoint('a')
      const read = expect(stream.execute('select 1')).rejects.toMatchObject({ code: 'RESPONSE_TOO_LARGE' })
      await (await next()).reject(tooLarge)
      await read
      expect(stream.inTransaction).toBe(true)
      // the control statements before it have run
      await answer(stream.execute(insert(2)), [insert(2)])
      expect(stream.expiresAt).not.toBeNull()
    },
  )

  test.each([true, false])(
    'to several reads sends each of them again, separately (after a write: %s)',
    async (hasWritten) => {
      const { stream, next } = await startTransaction({ hasWritten })
      const calls = Promise.allSettled([1, 2, 3].map((n) => stream.execute(`select ${n}`)))
      const shared = await next()
      const begin = hasWritten ? [] : ['BEGIN IMMEDIATE']
      expect(shared.sql).toEqual([...begin, 'select 1', 'select 2', 'select 3'])
      await shared.reject(tooLarge)
      for (const n of [1, 2, 3]) {
        const request = await next()
        expect(request.sql).toEqual([`select ${n}`])
        await (n === 2 ? request.reject(tooLarge) : request.respond())
      }
      expect(await calls).toMatchObject([
        { status: 'fulfilled' },
        { reason: { code: 'RESPONSE_TOO_LARGE' } },
        { status: 'fulfilled' },
      ])
      expect(stream.inTransaction).toBe(true)
      expect(stream.expiresAt).not.toBeNull()
    },
  )

  test.each<[string, (stream: Stream) => Promise<unknown>[]]>([
    ['a write among them', (stream) => [stream.execute('select 1'), stream.execute('delete from t')]],
    [
      'a savepoint between them',
      (stream) => {
        const first = stream.execute('select 1')
        stream.savepoint('a')
        return [first, stream.execute('select 2')]
      },
    ],
  ])('to several calls with %s ends the transaction', async (_, makeCalls) => {
    const { stream, next } = await startTransaction({ hasWritten: true })
    const calls = Promise.allSettled(makeCalls(stream))
    await (await next()).reject(tooLarge)
    for (const outcome of await calls) expect(outcome).toMatchObject({ reason: { code: 'TRANSACTION_LOST' } })
    expect(stream.inTransaction).toBe(false)
  })
})

test('a transaction whose first statement cannot be parsed does not block other writers', async () => {
  const { newStream, next, answer, requests } = start()
  // each of these streams acquires one of the two write permits
  for (const stream of [newStream(), newStream()]) {
    stream.begin()
    const rejected = expect(stream.execute('insert int t')).rejects.toMatchObject({ code: 'SQL_PARSE_ERROR' })
    await (await next()).reject({ message: 'SQL string could not be parsed', code: 'SQL_PARSE_ERROR' })
    await rejected
    expect(stream.inTransaction).toBe(true)
  }
  const nextStream = newStream()
  nextStream.begin()
  await answer(nextStream.execute(insert(2)), ['BEGIN IMMEDIATE', insert(2)])
  expect(requests).toEqual([])
})

test('a cursor is queued after earlier calls and before later ones', async () => {
  const { stream, next, answer, requests } = start()
  stream.begin()
  const rows = readRows(stream, 'select 1 as a')
  const row = rows.next()
  const write = stream.execute(insert(1))
  const begin = await next()
  expect(begin.sql).toEqual(['BEGIN IMMEDIATE', 'SELECT 1'])
  expect(requests).toEqual([])
  await begin.respond()
  const first = await next()
  expect(first.sql).toEqual(['select 1 as a'])
  expect(requests).toEqual([])
  await first.sendRow()
  expect(await row).toEqual({ done: false, value: { a: 1 } })
  await settle()
  expect(requests).toEqual([])
  await expect(stream.execute('select 2')).rejects.toThrow('rows are being read')
  await rows.return()
  await answer(write, [insert(1)])
})

test('a queued cursor is not opened when the stream is closed', async () => {
  const { stream, answer } = start()
  stream.begin()
  const write = stream.execute(insert(1))
  const rows = readRows(stream, 'select 1').next()
  const closed = stream.close()
  await expect(rows).rejects.toMatchObject(streamClosed)
  await answer(write)
  await closed
})

test('if fetch ignores its signal, the next transaction writes after two aborted transactions have been dropped', async () => {
  const { beginStreams, next, answer, clock } = start()
  const [first, second, third] = beginStreams(3)
  for (const stream of [first, second]) {
    const abort = abortable((options) => stream!.execute(insert(1), [], options))
    await next()
    await abort()
  }
  const call = third?.execute(insert(2))
  await clock.advance(1_000)
  await answer(call, ['BEGIN IMMEDIATE', insert(2)])
})

test('a savepoint without statements is not sent', async () => {
  const { stream, answer } = start()
  stream.begin()
  for (const undo of [false, true]) {
    stream.savepoint('a')
    if (undo) stream.rollbackTo('a')
    stream.release('a')
  }
  await answer(stream.execute('insert'), ['BEGIN IMMEDIATE', 'insert'])
})

test('a savepoint is not mistaken for a BEGIN because of its name', async () => {
  const { stream, answer } = start()
  stream.begin('deferred')
  stream.savepoint('immediate_report')
  await answer(stream.execute('select 1'))
  expect(stream.expiresAt).toBeNull()
})

test('a request that was rejected, and aborted before its retry, was not applied', async () => {
  const { stream, next, answer, clock, requests } = start()
  stream.begin('readonly')
  const abort = abortable((options) => stream.execute('select 1', [], options))
  await (await next()).status(429, '')
  await abort()
  await clock.advance(1_000)
  expect(requests).toEqual([])
  // the request was not executed, so nothing is lost
  await answer(stream.execute('select 2'), ['BEGIN READONLY', 'select 2'])
})

describe('a cursor whose handle is closed before the response begins', () => {
  /** Starts a transaction that has written, opens a cursor, and stops the cursor before its response begins. */
  const readAndStop = async (sql: string) => {
    const context = await startWithWrite()
    const { stream, next } = context
    const rows = readRows(stream, sql).next()
    await (await next()).respond()
    const request = await next()
    const ended = expect(rows).rejects.toMatchObject(streamClosed)
    getServerStream(stream).dispatch({
      type: 'stopCursors',
      owner: stream,
      rejection: { type: 'stream', code: 'STREAM_CLOSED', message: 'closed' },
    })
    const write = stream.execute(insert(2))
    await settle()
    // a request would continue the stream with a used baton
    expect(context.requests).toEqual([])
    return { ...context, request, ended, write }
  }

  test('a read is dropped as soon as its baton has arrived, and the stream continues', async () => {
    const { request, ended, write, answer } = await readAndStop('select 1')
    await request.sendRow()
    await ended
    await answer(write, [insert(2)])
  })

  test('a write is read completely, because aborting it midway would end the transaction', async () => {
    const { request, ended, write, answer, requests } = await readAndStop(`${insert(3)} returning a`)
    await request.sendRow()
    await settle()
    expect(requests).toEqual([])
    request.endRows()
    await ended
    await answer(write, [insert(2)])
  })
})

test('a savepoint that fails while its rows are read stops the cursor, and the transaction continues', async () => {
  const { stream, next, answer } = start()
  stream.begin()
  const transaction = Transaction.run(getServerStream(stream), async (tx) => {
    const savepoint = tx.savepoint(async (inner) => {
      await readRows(inner, 'select 1').next()
      throw new Error('aborted')
    })
    await expect(savepoint).rejects.toThrow('aborted')
    await tx.execute('insert')
  })
  await (await next()).respond()
  await (await next()).sendRow()
  const request = await next()
  expect(request.sql.slice(-1)).toEqual(['insert'])
  await request.respond()
  await answer(transaction)
})

test('the first read of a readonly transaction is retried', async () => {
  const { stream, next, answer, clock } = start()
  stream.begin('readonly')
  const read = stream.execute('select 1')
  await (await next()).status(503, 'busy')
  await clock.advance(10_000)
  await answer(read, ['BEGIN READONLY', 'select 1'])
})

test('while the client is being closed, only calls that have already begun can open a stream', async () => {
  const { http, newStream, answer } = start()
  http.lifetime.begin()
  const closed = http.close(60_000)
  await expect(newStream().execute('select 1')).rejects.toMatchObject({ code: 'CLOSED' })
  const stream = new Stream(new ServerStream(http, true))
  await answer(stream.execute('select 1'))
  await answer(stream.close())
  http.lifetime.end()
  await closed
})

test('a stream that is closed while its cursor waits for the write lock does not wait for it', async () => {
  const { third } = await openFourStreams()
  const rows = expect(readRows(third, `${insert(2)} returning a`).next()).rejects.toMatchObject(streamClosed)
  await settle()
  await third.close()
  await rows
})

test('an aborted write keeps the only permit until its response arrives', async () => {
  const { newStream, clock, next, answer, requests } = start({ concurrency: 1 })
  const write = (timeoutMs?: number) => newStream().execute(insert(1), [], { timeoutMs })
  const lateCall = expect(write(50)).rejects.toMatchObject({ code: 'TIMEOUT' })
  const request = await next()
  await clock.advance(50)
  await lateCall
  const writes = [write(), write()]
  await settle()
  expect(requests).toEqual([])
  await request.respond()
  // one of them, and the request that closes the aborted stream
  const followUps = [await next(), await next()]
  expect(followUps.map(({ closes }) => closes).toSorted()).toEqual([false, true])
  expect(requests).toEqual([])
  for (const request of followUps) await request.respond()
  await writes[0]
  await answer(writes[1])
})

test('closing a client closes its open streams, and waits until they are closed', async () => {
  const { http, next } = await startWithWrite()
  let isClosed = false
  const closed = http.close(0).then(() => (isClosed = true))
  const closeRequest = await next()
  expect([closeRequest.closes, isClosed]).toEqual([true, false])
  await closeRequest.respond()
  await closed
})

test('closing a client does not wait for a closed stream', async () => {
  const { http, stream, answer, requests } = start()
  await answer(stream.execute('select 1'))
  await answer(stream.close())
  await http.close(60_000)
  expect(requests).toEqual([])
})

test('the connection of a cursor that is aborted between rows is dropped at once', async () => {
  let fetchSignal: AbortSignal | undefined
  const lines = [
    '{"baton":"b","base_url":null}',
    '{"type":"step_begin","step":0,"cols":[{"name":"a"}]}',
    '{"type":"row","row":[{"type":"integer","value":"1"}]}',
  ]
  const { stream } = start({
    fetch: async (_, { signal }) => {
      fetchSignal = signal
      return {
        status: 200,
        text: async () => '',
        body: createBody(lines.map((line) => `${line}\n`).join(''), new Promise(() => {})),
      }
    },
  })
  const controller = new AbortController()
  const rows = readRows(stream, 'select 1', [], { signal: controller.signal })
  expect(await rows.next()).toMatchObject({ value: { a: 1 } })
  expect(fetchSignal?.aborted).toBe(false)
  controller.abort(new Error('enough'))
  expect(fetchSignal?.aborted).toBe(true)
  await expect(rows.next()).rejects.toThrow('enough')
})

test('a read that continues a stream is not retried, because its baton has been used', async () => {
  const { stream, next, answer, requests, clock } = start()
  stream.begin('readonly')
  await answer(stream.execute('select 1'))
  const lost = expect(stream.execute('select 2')).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
  await (await next()).status(503, 'gone')
  await clock.advance(1_000)
  await lost
  // only the request that closes the stream is sent
  expect(requests.map(({ sql, closes }) => [sql, closes])).toEqual([[[], true]])
})

test('the timeout of a call covers the token and the response together', async () => {
  const token = Promise.withResolvers<string>()
  const { clock, stream, next } = start({ authToken: () => token.promise })
  let isSettled = false
  const timeout = { code: 'TIMEOUT', outcome: 'unknown' }
  const call = expect(stream.execute(insert(1), [], { timeoutMs: 150 })).rejects.toMatchObject(timeout)
  void call.then(() => (isSettled = true))
  await clock.advance(100)
  token.resolve('token')
  await next()
  await clock.advance(49)
  expect(isSettled).toBe(false)
  await clock.advance(1)
  await call
})

test('calls that share a request time out at the earliest of their time limits', async () => {
  const { clock, stream, next } = await startWithWrite()
  const errors: unknown[] = []
  const calls = [900, 100, 500].map((timeoutMs) =>
    stream.execute('select 1', [], { timeoutMs }).catch((error: unknown) => errors.push(error)),
  )
  expect((await next()).sql).toEqual(['select 1', 'select 1', 'select 1'])
  await clock.advance(99)
  expect(errors).toEqual([])
  await clock.advance(1)
  expect(errors).toHaveLength(3)
  await Promise.all(calls)
})

test('reading the rows of a statement that does not parse leaves the transaction as it was', async () => {
  const { stream, next, answer } = await startWithWrite()
  const message = 'SQL string could not be parsed: near SELEC: syntax error'
  const error = { message, code: 'SQL_PARSE_ERROR' }
  const rows = expect(readRows(stream, 'selec 1').next()).rejects.toMatchObject({ ...error, sql: 'selec 1' })
  await (await next()).reject(error)
  await rows
  await answer(stream.execute(insert(2)), [insert(2)])
})

test('a cursor whose statement the server rejects although it has parsed it ends the stream', async () => {
  const { stream, next, requests, transactionEvents } = await startWithWrite()
  const rows = expect(readRows(stream, 'selec 1').next()).rejects.toMatchObject({ code: 'SQL_PARSE_ERROR' })
  await (await next()).respond()
  await (await next()).status(500, '{"error":"SQL string could not be parsed: near SELEC: syntax error"}')
  await rows
  expect(stream.isOpen).toBe(false)
  expect(transactionEvents().at(-1)).toMatch('transaction:lost')
  await expect(stream.execute('select 1')).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
  await settle()
  // no close is sent, because the server has already dropped the stream
  expect(requests).toEqual([])
})

test('a failed request for rows closes the stream on the server, which releases the write lock', async () => {
  const { stream, next } = await startWithWrite()
  const rows = expect(readRows(stream, 'select 1').next()).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
  await (await next()).respond()
  await (await next()).status(503, 'gone')
  await rows
  const request = await next()
  expect(request).toMatchObject({ sql: [], closes: true })
  await request.respond()
})

test('reading rows rejects with the error of the control statements that were sent first', async () => {
  const { stream, next } = start({ maxRetries: 0 })
  stream.begin()
  const rows = expect(readRows(stream, 'select 1').next()).rejects.toMatchObject({ code: 'HTTP_STATUS' })
  const request = await next()
  expect(request.sql).toEqual(['BEGIN IMMEDIATE', 'SELECT 1'])
  await request.status(429, 'too many')
  await rows
})
