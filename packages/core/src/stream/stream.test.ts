import { afterEach, describe, expect, test } from 'vitest'
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
  const stream = new Stream(new ServerStream(http))
  /** Returns the next request that was sent. */
  const next = async (): Promise<Request> => {
    await settle()
    const request = requests.shift()
    if (!request) throw new Error('nothing was sent')
    return request
  }
  const transactionEvents = () =>
    events.flatMap((event) =>
      event.type.startsWith('transaction:') ? [`${event.type} ${'id' in event ? event.id : ''}`] : [],
    )
  return { clock, http, stream, next, requests, transactionEvents, events }
}

/** Responds to the next request, and waits for its call. @param sql the statements that the request must have */
async function answer(
  next: () => Promise<Request>,
  call: Promise<unknown>,
  sql?: readonly string[],
): Promise<void> {
  const request = await next()
  if (sql !== undefined) expect(request.sql).toEqual(sql)
  await request.respond()
  await call
}

/** Starts a transaction that has written, and therefore holds the write lock. */
async function startWithWrite(config?: Partial<ClientConfig>) {
  const context = start(config)
  context.stream.begin()
  const write = context.stream.execute('insert into t values (1)')
  await (await context.next()).respond()
  await write
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
const abortReason = new Error('changed my mind')

describe('an aborted commit', () => {
  test('that is in flight rejects later calls, and closes its stream when the response arrives', async () => {
    const { stream, next, requests } = await startWithWrite()
    const controller = new AbortController()
    const commit = stream.commit({ signal: controller.signal })
    const request = await next()
    expect(request.sql).toEqual(['COMMIT'])
    controller.abort(abortReason)
    await expect(commit).rejects.toBe(abortReason)
    // otherwise the statement would be acknowledged in a transaction that is never committed
    await expect(stream.execute('insert into t values (2)')).rejects.toMatchObject(streamClosed)
    expect(() => stream.begin()).toThrow(/COMMIT/)
    expect([stream.inTransaction, stream.isOpen]).toEqual([false, false])
    await settle()
    expect(requests).toEqual([])
    await request.respond()
    expect(await next()).toMatchObject({ sql: [], closes: true })
  })

  test('that was not sent leaves the transaction unchanged', async () => {
    const { stream, clock, next } = start()
    stream.begin()
    const slow = stream.execute('insert into t values (1)')
    const first = await next()
    const commit = stream.commit({ timeoutMs: 20 })
    const later = stream.execute('insert into log values (1)')
    const rejected = Promise.all([
      expect(commit).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied' }),
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
    await answer(next, stream.execute('insert into t values (2)'), ['insert into t values (2)'])
    await answer(next, stream.commit())
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
    const commit = expect(stream.commit()).rejects.toMatchObject({
      name: 'HttpError',
      status,
      outcome: 'unknown',
    })
    await (await next()).status(status, text)
    await commit
    await expect(stream.execute('select 1')).rejects.toMatchObject(streamClosed)
  })

  test('is not applied if its stream had certainly expired before it was sent', async () => {
    const { stream, next } = await startWithWrite()
    const commit = expect(stream.commit()).rejects.toMatchObject({
      code: 'TRANSACTION_EXPIRED',
      outcome: 'not_applied',
    })
    await (await next()).status(400, '{"message":"The stream has expired","code":"STREAM_EXPIRED"}')
    await commit
  })
})

test('the time limit of a transaction no longer applies once it has ended', async () => {
  const { stream, next } = await startWithWrite()
  expect(stream.expiresAt).toEqual(expect.any(Number))
  await answer(next, stream.commit())
  expect(stream.expiresAt).toBeNull()
  const read = expect(stream.execute('select 1')).rejects.toMatchObject({
    code: 'STREAM_LOST',
    elapsedMs: null,
  })
  await (await next()).status(400, 'Received an invalid baton')
  await read
  expect(stream.expiresAt).toBeNull()
})

test('no transaction begins until the previous one has ended', async () => {
  const { stream, next, transactionEvents } = await startWithWrite()
  const commit = expect(stream.commit()).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT' })
  expect(() => stream.begin()).toThrow(/still ending/)
  await (await next()).respond('COMMIT')
  await commit
  expect(stream.inTransaction).toBe(true)
  await answer(next, stream.commit())
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
  const { stream, next, transactionEvents } = await startWithWrite()
  const commit = expect(stream.commit()).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT' })
  const rollback = stream.rollback()
  await (await next()).respond('COMMIT')
  await commit
  await answer(next, rollback, ['ROLLBACK'])
  expect(transactionEvents().at(-1)).toMatch('transaction:rollback')
})

test('a rollback waits for the COMMIT in flight, although a second COMMIT was rejected', async () => {
  const { stream, next, requests } = await startWithWrite()
  const commit = stream.commit()
  await expect(stream.commit()).rejects.toThrow(TypeError)
  const rollback = stream.rollback()
  await (await next()).respond()
  await Promise.all([commit, rollback])
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
  const { stream, next } = await startWithWrite()
  const write = stream.execute('insert into t values (2)')
  await settle()
  const controller = new AbortController()
  const rows = readRows(stream, 'select 1', [], { signal: controller.signal })
  const row = rows.next()
  await (await next()).respond()
  await write
  const parse = await next()
  controller.abort(new Error('stopped'))
  await expect(row).rejects.toThrow('stopped')
  await parse.respond()
  await answer(next, stream.execute('insert into t values (3)'), ['insert into t values (3)'])
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
  const { http, next, requests, clock } = start({ requestTimeoutMs: 100 })
  const openTransaction = (): Stream => {
    const stream = new Stream(new ServerStream(http))
    stream.begin()
    return stream
  }
  const [first, second, third] = [openTransaction(), openTransaction(), openTransaction()]
  const calls = [first, second, third].map((stream) => stream.execute('insert into t values (1)'))
  await (await next()).respond()
  await (await next()).respond()
  await Promise.all(calls.slice(0, 2))
  await clock.advance(900)
  expect(requests).toEqual([])
  const rollback = first?.rollback()
  await (await next()).respond()
  await rollback
  const lastRequest = await next()
  expect(lastRequest.sql).toEqual(['BEGIN IMMEDIATE', 'insert into t values (1)'])
  await clock.advance(99)
  await lastRequest.respond()
  await calls[2]
})

test('calls queued behind a request that has no response yet reject at their own timeouts and signals', async () => {
  const { stream, next, requests, clock } = start({ requestTimeoutMs: 1_000 })
  const controller = new AbortController()
  const first = stream.execute('select 1')
  // calls outside a transaction never share a request
  const timedOut = expect(stream.execute('select 2', [], { timeoutMs: 200 })).rejects.toMatchObject({
    code: 'TIMEOUT',
    outcome: 'not_applied',
  })
  const abortedCall = expect(stream.execute('select 3', [], { signal: controller.signal })).rejects.toBe(
    'enough',
  )
  const lastCall = stream.execute('select 4')
  const request = await next()
  await clock.advance(200)
  await timedOut
  controller.abort('enough')
  await abortedCall
  await request.respond()
  await first
  await answer(next, lastCall, ['select 4'])
  expect(requests).toEqual([])
})

test('the time limits of calls queued while a transaction waits for the write lock start when it acquires the lock', async () => {
  const { http, next, clock } = start({ requestTimeoutMs: 300 })
  const openTransaction = (): Stream => {
    const stream = new Stream(new ServerStream(http))
    stream.begin()
    return stream
  }
  const [first, second, third] = [openTransaction(), openTransaction(), openTransaction()]
  const calls = [first, second].map((stream) => stream.execute('insert into t values (1)'))
  const controller = new AbortController()
  const waiting = [
    third.execute('insert into t values (2)'),
    third.execute('insert into t values (3)'),
    third.execute('insert into t values (4)', [], { signal: controller.signal }),
  ]
  const abortedCall = expect(waiting[2]).rejects.toBe('enough')
  await (await next()).respond()
  await (await next()).respond()
  await Promise.all(calls)
  await clock.advance(1_000)
  controller.abort('enough')
  await abortedCall
  await answer(next, first.rollback())
  const request = await next()
  expect(request.sql).toEqual(['BEGIN IMMEDIATE', 'insert into t values (2)', 'insert into t values (3)'])
  const timedOut = expect(third.execute('select 1', [], { timeoutMs: 50 })).rejects.toMatchObject({
    code: 'TIMEOUT',
    outcome: 'not_applied',
  })
  await clock.advance(50)
  await timedOut
  await request.respond()
  await Promise.all(waiting.slice(0, 2))
})

test('a transaction that stopped waiting does not affect the next one on its stream', async () => {
  const { http, stream, next, clock } = start({ requestTimeoutMs: 300 })
  // these streams hold the two write permits
  const holders = [1, 2].map(() => new Stream(new ServerStream(http)))
  const writes = holders.map((holder) => {
    holder.begin()
    return holder.execute('insert into t values (1)')
  })
  for (const _ of holders) await (await next()).respond()
  await Promise.all(writes)
  const controller = new AbortController()
  stream.begin()
  const abortedCall = expect(
    stream.execute('insert into t values (2)', [], { signal: controller.signal }),
  ).rejects.toBe('enough')
  await settle()
  controller.abort('enough')
  await abortedCall
  await stream.rollback()
  stream.begin()
  const call = stream.execute('insert into t values (3)')
  // its timeout has not started either
  await clock.advance(1_000)
  const rollback = holders[0]?.rollback()
  await (await next()).respond()
  await rollback
  const request = await next()
  expect(request.sql).toEqual(['BEGIN IMMEDIATE', 'insert into t values (3)'])
  await request.respond()
  expect(await call).toMatchObject({ rowsAffected: 1 })
})

/** Two streams that hold the write permits, and two more that have begun. */
async function openFourStreams(config?: Partial<ClientConfig>) {
  const context = start(config)
  const [first, second, third, fourth] = Array.from({ length: 4 }, () => {
    const stream = new Stream(new ServerStream(context.http))
    stream.begin()
    return stream
  }) as [Stream, Stream, Stream, Stream]
  const calls = [first, second].map((stream) => stream.execute('insert into t values (1)'))
  for (const _ of calls) await (await context.next()).respond()
  await Promise.all(calls)
  /** Rolls back the first transaction, which releases its write permit. */
  const rollBackFirst = async (): Promise<void> => {
    const rollback = first.rollback()
    await (await context.next()).respond()
    await rollback
  }
  return { ...context, third, fourth, rollBackFirst }
}

test('a transaction that is rolled back while it waits lets the next one write, and its stream stays open', async () => {
  const { third, fourth, rollBackFirst, next } = await openFourStreams()
  const rejected = expect(third.execute('insert into t values (2)')).rejects.toMatchObject({
    code: 'STREAM_CLOSED',
  })
  await settle()
  await third.rollback()
  await rejected
  const call = fourth.execute('insert into t values (3)')
  await rollBackFirst()
  await answer(next, call, ['BEGIN IMMEDIATE', 'insert into t values (3)'])
  expect(third.isOpen).toBe(true)
})

test('a transaction whose call is aborted while it waits releases its place in the queue', async () => {
  const { third, fourth, rollBackFirst, next } = await openFourStreams({ queueLimit: 1 })
  const controller = new AbortController()
  const waiting = third.execute('insert into t values (2)', undefined, { signal: controller.signal })
  const rejected = expect(waiting).rejects.toBe('enough')
  controller.abort('enough')
  await rejected
  const call = fourth.execute('insert into t values (3)')
  await settle()
  await rollBackFirst()
  await answer(next, call, ['BEGIN IMMEDIATE', 'insert into t values (3)'])
})

test('a COMMIT that was queued before the write lock was acquired can be aborted after the statement that it waits for', async () => {
  const { third, rollBackFirst, next } = await openFourStreams()
  const controller = new AbortController()
  const insert = third.execute('insert into t values (2)')
  const commit = expect(third.commit({ signal: controller.signal })).rejects.toBe('enough')
  await rollBackFirst()
  const request = await next()
  expect(request.sql).toEqual(['BEGIN IMMEDIATE', 'insert into t values (2)'])
  controller.abort('enough')
  await commit
  expect(third.inTransaction).toBe(true)
  await request.respond()
  await insert
})

test('a transaction that no longer needs the write lock stops waiting for it, and the time limits of its calls begin', async () => {
  const { clock, fourth, next, stream, third, rollBackFirst } = await openFourStreams()
  stream.begin('deferred')
  const controller = new AbortController()
  const insert = expect(
    stream.execute('insert into t values (2)', [], { signal: controller.signal }),
  ).rejects.toBe('enough')
  const read = stream.execute('select 1')
  const limits = { signal: new AbortController().signal, timeoutMs: 100 }
  const failures: unknown[] = []
  stream.commit(limits).catch((error: unknown) => failures.push(error))
  await clock.advance(1_000)
  controller.abort('enough')
  await insert
  const request = await next()
  expect(request.sql).toEqual(['BEGIN DEFERRED', 'select 1'])
  // the read is in flight
  await clock.advance(100)
  expect(failures).toMatchObject([{ code: 'TIMEOUT' }])
  await request.respond()
  await read
  // its place in the queue is free
  const writes = [third, fourth].map((waiting) => waiting.execute('insert into t values (3)'))
  await rollBackFirst()
  const writeRequest = await next()
  expect(writeRequest.sql).toEqual(['BEGIN IMMEDIATE', 'insert into t values (3)'])
  await writeRequest.respond()
  await writes[0]
  void writes[1]?.catch(() => {})
})

test('a stream has its own queue, which is full at queueLimit; COMMIT and ROLLBACK are always accepted', async () => {
  const { stream, next } = start({ queueLimit: 2 })
  stream.begin()
  const first = stream.execute('insert into t values (1)')
  const request = await next()
  const waiting = [stream.execute('insert into t values (2)'), stream.execute('insert into t values (3)')]
  await expect(stream.execute('insert into t values (4)')).rejects.toMatchObject({ code: 'QUEUE_FULL' })
  const commit = stream.commit()
  await request.respond()
  await first
  await (await next()).respond()
  await Promise.all(waiting)
  await (await next()).respond()
  await commit
})

test('a transaction whose first call was aborted while it was queued lets others write', async () => {
  const { http, next, clock } = start()
  const newStream = (): Stream => new Stream(new ServerStream(http))
  // each of these streams acquires one of the two write permits
  for (const stream of [newStream(), newStream()]) {
    void stream.execute('select 1').catch(() => {})
    await next()
    stream.begin()
    const timedOut = expect(
      stream.execute('insert into t values (1)', [], { timeoutMs: 50 }),
    ).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'not_applied' })
    await clock.advance(50)
    await timedOut
  }
  const nextStream = newStream()
  nextStream.begin()
  const call = nextStream.execute('insert into t values (2)')
  const request = await next()
  expect(request.sql).toEqual(['BEGIN IMMEDIATE', 'insert into t values (2)'])
  await request.respond()
  await call
})

test('if a response never arrives, the call ends at its timeout, and the request some time later', async () => {
  const { stream, next, clock, http } = start({ requestTimeoutMs: 1_000 })
  stream.begin()
  const insert = expect(stream.execute('insert into t values (1)')).rejects.toMatchObject({
    code: 'TRANSACTION_LOST',
    cause: { code: 'TIMEOUT', outcome: 'unknown' },
  })
  const request = await next()
  await clock.advance(1_000)
  await insert
  const nextStream = new Stream(new ServerStream(http))
  nextStream.begin()
  const write = nextStream.execute('insert into t values (2)')
  await (await next()).respond()
  await write
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
      const { stream, next } = await startTransaction({ hasWritten })
      if (savepoint) stream.savepoint('a')
      const read = expect(stream.execute('select 1')).rejects.toMatchObject({ code: 'RESPONSE_TOO_LARGE' })
      await (await next()).reject(tooLarge)
      await read
      expect(stream.inTransaction).toBe(true)
      // the control statements before it have run
      const write = stream.execute('insert into t values (2)')
      await answer(next, write, ['insert into t values (2)'])
      expect(stream.expiresAt).not.toBeNull()
    },
  )

  test.each([true, false])(
    'to several reads sends each of them again, separately (after a write: %s)',
    async (hasWritten) => {
      const { stream, next } = await startTransaction({ hasWritten })
      const calls = Promise.allSettled([1, 2, 3].map((n) => stream.execute(`select ${n}`)))
      const shared = await next()
      expect(shared.sql).toEqual([
        ...(hasWritten ? [] : ['BEGIN IMMEDIATE']),
        'select 1',
        'select 2',
        'select 3',
      ])
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
  const { http, next, requests } = start()
  const newStream = (): Stream => new Stream(new ServerStream(http))
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
  await answer(next, nextStream.execute('insert into t values (2)'), [
    'BEGIN IMMEDIATE',
    'insert into t values (2)',
  ])
  expect(requests).toEqual([])
})

test('a cursor is queued after earlier calls and before later ones', async () => {
  const { stream, next, requests } = start()
  stream.begin()
  const rows = readRows(stream, 'select 1 as a')
  const row = rows.next()
  const write = stream.execute('insert into t values (1)')
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
  await answer(next, write, ['insert into t values (1)'])
})

test('a queued cursor is not opened when the stream is closed', async () => {
  const { stream, next } = start()
  stream.begin()
  const write = stream.execute('insert into t values (1)')
  const rows = readRows(stream, 'select 1').next()
  const closed = stream.close()
  await expect(rows).rejects.toMatchObject(streamClosed)
  await (await next()).respond()
  await write
  await closed
})

test('if fetch ignores its signal, the next transaction writes after two aborted transactions have been dropped', async () => {
  const { http, next, clock } = start()
  const newStream = (): Stream => new Stream(new ServerStream(http))
  for (const stream of [newStream(), newStream()]) {
    stream.begin()
    const controller = new AbortController()
    const write = stream.execute('insert into t values (1)', [], { signal: controller.signal })
    await next()
    controller.abort(abortReason)
    await expect(write).rejects.toBe(abortReason)
  }
  const nextStream = newStream()
  nextStream.begin()
  const call = nextStream.execute('insert into t values (2)')
  await clock.advance(1_000)
  await answer(next, call, ['BEGIN IMMEDIATE', 'insert into t values (2)'])
})

test('a savepoint without statements is not sent', async () => {
  const { stream, next } = start()
  stream.begin()
  for (const undo of [false, true]) {
    stream.savepoint('a')
    if (undo) stream.rollbackTo('a')
    stream.release('a')
  }
  await answer(next, stream.execute('insert'), ['BEGIN IMMEDIATE', 'insert'])
})

test('a savepoint is not mistaken for a BEGIN because of its name', async () => {
  const { stream, next } = start()
  stream.begin('deferred')
  stream.savepoint('immediate_report')
  await answer(next, stream.execute('select 1'))
  expect(stream.expiresAt).toBeNull()
})

test('a request that was rejected, and aborted before its retry, was not applied', async () => {
  const { stream, next, clock, requests } = start()
  stream.begin('readonly')
  const controller = new AbortController()
  const read = stream.execute('select 1', [], { signal: controller.signal })
  await (await next()).status(429, '')
  controller.abort(abortReason)
  await expect(read).rejects.toBe(abortReason)
  await clock.advance(1_000)
  expect(requests).toEqual([])
  // the request was not executed, so nothing is lost
  await answer(next, stream.execute('select 2'), ['BEGIN READONLY', 'select 2'])
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
    const write = stream.execute('insert into t values (2)')
    await settle()
    // a request would continue the stream with a used baton
    expect(context.requests).toEqual([])
    return { ...context, request, ended, write }
  }

  test('a read is dropped as soon as its baton has arrived, and the stream continues', async () => {
    const { request, ended, write, next } = await readAndStop('select 1')
    await request.sendRow()
    await ended
    await answer(next, write, ['insert into t values (2)'])
  })

  test('a write is read completely, because aborting it midway would end the transaction', async () => {
    const { request, ended, write, next, requests } = await readAndStop(
      'insert into t values (3) returning a',
    )
    await request.sendRow()
    await settle()
    expect(requests).toEqual([])
    request.endRows()
    await ended
    await answer(next, write, ['insert into t values (2)'])
  })
})

test('a savepoint that fails while its rows are read stops the cursor, and the transaction continues', async () => {
  const { stream, next } = start()
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
  const insert = await next()
  expect(insert.sql.slice(-1)).toEqual(['insert'])
  await insert.respond()
  await (await next()).respond()
  await transaction
})

test('the first read of a readonly transaction is retried', async () => {
  const { stream, next, clock } = start()
  stream.begin('readonly')
  const read = stream.execute('select 1')
  await (await next()).status(503, 'busy')
  await clock.advance(10_000)
  await answer(next, read, ['BEGIN READONLY', 'select 1'])
})

test('while the client is being closed, only calls that have already begun can open a stream', async () => {
  const { http, next } = start()
  http.lifetime.begin()
  const closed = http.close(60_000)
  await expect(new Stream(new ServerStream(http)).execute('select 1')).rejects.toMatchObject({
    code: 'CLOSED',
  })
  const stream = new Stream(new ServerStream(http, true))
  await answer(next, stream.execute('select 1'))
  await answer(next, stream.close())
  http.lifetime.end()
  await closed
})

test('a stream that is closed while its cursor waits for the write lock does not wait for it', async () => {
  const { third } = await openFourStreams()
  const rows = expect(readRows(third, 'insert into t values (2) returning a').next()).rejects.toMatchObject({
    code: 'STREAM_CLOSED',
  })
  await settle()
  await third.close()
  await rows
})

test('an aborted write keeps the only permit until its response arrives', async () => {
  const { http, clock, next, requests } = start({ concurrency: 1 })
  const write = (timeoutMs?: number) =>
    new Stream(new ServerStream(http)).execute('insert into t values (1)', [], { timeoutMs })
  const timedOut = expect(write(50)).rejects.toMatchObject({ code: 'TIMEOUT' })
  const request = await next()
  await clock.advance(50)
  await timedOut
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
  await (await next()).respond()
  await writes[1]
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
  const { http, stream, next, requests } = start()
  await answer(next, stream.execute('select 1'))
  await answer(next, stream.close())
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
  const { stream, next, requests, clock } = start()
  stream.begin('readonly')
  await answer(next, stream.execute('select 1'))
  const second = stream.execute('select 2')
  const lost = expect(second).rejects.toMatchObject({ code: 'TRANSACTION_LOST' })
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
  const call = expect(
    stream.execute('insert into t values (1)', [], { timeoutMs: 150 }),
  ).rejects.toMatchObject({ code: 'TIMEOUT', outcome: 'unknown' })
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
  const { stream, next } = await startWithWrite()
  const error = {
    message: 'SQL string could not be parsed: near SELEC: syntax error',
    code: 'SQL_PARSE_ERROR',
  }
  const rows = expect(readRows(stream, 'selec 1').next()).rejects.toMatchObject({ ...error, sql: 'selec 1' })
  await (await next()).reject(error)
  await rows
  await answer(next, stream.execute('insert into t values (2)'), ['insert into t values (2)'])
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
