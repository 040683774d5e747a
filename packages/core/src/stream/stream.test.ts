import { afterEach, describe, expect, test } from 'vitest'
import { ManualClock, settle } from '../../test-support/manual-clock.ts'
import { batchResponse, isNever, type ScriptedStep } from '../../test-support/scripted-batch.ts'
import { readRows } from '../client/read-rows.ts'
import { getServerStream, Stream } from '../client/stream.ts'
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
  const stream = newStream()
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
  return { clock, http, stream, newStream, next, requests, transactionEvents, events }
}

/** Responds to the next request, and waits for its call. @param sql the statements that the request must have */
async function answer(
  next: () => Promise<Request>,
  call: Promise<unknown> | undefined,
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

test('an aborted commit that is in flight rejects later calls, and closes its stream when the response arrives', async () => {
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

/** A transaction that waits for the write permits, which two other transactions hold. */
async function startWaiting(config?: Partial<ClientConfig>) {
  const context = start(config)
  const [first, second, waiting] = [context.newStream(), context.newStream(), context.newStream()]
  for (const stream of [first, second, waiting]) stream.begin()
  for (const holder of [first, second]) await answer(context.next, holder.execute('insert into t values (1)'))
  /** Rolls back the first transaction, which releases its write permit. */
  const release = (): Promise<void> => answer(context.next, first.rollback())
  return { ...context, waiting, release }
}

test('a transaction that waits for the write lock sends nothing, and its timeout has not started', async () => {
  const { waiting, release, next, requests, clock } = await startWaiting({ requestTimeoutMs: 100 })
  const call = waiting.execute('insert into t values (1)')
  await clock.advance(900)
  expect(requests).toEqual([])
  await release()
  const request = await next()
  expect(request.sql).toEqual(['BEGIN IMMEDIATE', 'insert into t values (1)'])
  await clock.advance(99)
  await request.respond()
  await call
})

test('the time limits of calls queued while a transaction waits for the write lock start when it acquires the lock', async () => {
  const { waiting, release, next, clock } = await startWaiting({ requestTimeoutMs: 300 })
  const controller = new AbortController()
  const calls = [2, 3].map((a) => waiting.execute(`insert into t values (${a})`))
  const abortedCall = expect(
    waiting.execute('insert into t values (4)', [], { signal: controller.signal }),
  ).rejects.toBe('enough')
  await clock.advance(1_000)
  controller.abort('enough')
  await abortedCall
  await release()
  const request = await next()
  expect(request.sql).toEqual(['BEGIN IMMEDIATE', 'insert into t values (2)', 'insert into t values (3)'])
  const timedOut = expect(waiting.execute('select 1', [], { timeoutMs: 50 })).rejects.toMatchObject({
    code: 'TIMEOUT',
    outcome: 'not_applied',
  })
  await clock.advance(50)
  await timedOut
  await request.respond()
  await Promise.all(calls)
})

test('if a response never arrives, the call ends at its timeout, and the request some time later', async () => {
  const { stream, newStream, next, clock } = start({ requestTimeoutMs: 1_000 })
  stream.begin()
  const insert = expect(stream.execute('insert into t values (1)')).rejects.toMatchObject({
    code: 'TRANSACTION_LOST',
    cause: { code: 'TIMEOUT', outcome: 'unknown' },
  })
  const request = await next()
  await clock.advance(1_000)
  await insert
  const nextStream = newStream()
  nextStream.begin()
  await answer(next, nextStream.execute('insert into t values (2)'))
  // the first stream still holds one of the two write permits
  await request.respond()
  expect(await next()).toMatchObject({ closes: true })
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
  await answer(next, write)
  await closed
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

test('while the client is being closed, only calls that have already begun can open a stream', async () => {
  const { http, newStream, next } = start()
  http.lifetime.begin()
  const closed = http.close(60_000)
  await expect(newStream().execute('select 1')).rejects.toMatchObject({
    code: 'CLOSED',
  })
  const stream = new Stream(new ServerStream(http, true))
  await answer(next, stream.execute('select 1'))
  await answer(next, stream.close())
  http.lifetime.end()
  await closed
})

test('a stream that is closed while its cursor waits for the write lock does not wait for it', async () => {
  const { waiting } = await startWaiting()
  const rows = expect(readRows(waiting, 'insert into t values (2) returning a').next()).rejects.toMatchObject(
    {
      code: 'STREAM_CLOSED',
    },
  )
  await settle()
  await waiting.close()
  await rows
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

test('reading rows rejects with the error of the control statements that were sent first', async () => {
  const { stream, next } = start({ maxRetries: 0 })
  stream.begin()
  const rows = expect(readRows(stream, 'select 1').next()).rejects.toMatchObject({ code: 'HTTP_STATUS' })
  const request = await next()
  expect(request.sql).toEqual(['BEGIN IMMEDIATE', 'SELECT 1'])
  await request.status(429, 'too many')
  await rows
})
