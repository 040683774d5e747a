import { setTimeout as pause } from 'node:timers/promises'
import { runInNewContext } from 'node:vm'
import { describe, expect, onTestFinished, test } from 'vitest'
import { serveHttp } from '../../../../test/support/serve-http.ts'
import { createClient } from '../client/client.ts'
import { readRows } from '../client/read-rows.ts'
import { createTransport } from './node.ts'
import type { Fetch, TransportRequest } from './transport.ts'

const never = <T>(): Promise<T> => new Promise<T>(() => {})
const abortReason = new Error('own error')
const timeoutFailure = { name: 'TransportError', code: 'TIMEOUT', outcome: 'not_applied' }
const closedFailure = { name: 'TransportError', code: 'CLOSED', message: 'the client is closed' }
const encoder = new TextEncoder()
const COLUMN = '{"type":"step_begin","step":0,"cols":[{"name":"a","decltype":null}]}\n'
const row = (value: number): string => `{"type":"row","row":[{"type":"integer","value":"${value}"}]}\n`

/** Sends a body with the given number of rows and no end, and ignores the signal. */
const sendRows =
  (count: number, onCancel = (): void | Promise<void> => {}): Fetch =>
  async () => {
    let at = -1
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          if (at === count) return never()
          controller.enqueue(encoder.encode(at < 0 ? `{"baton":null}\n${COLUMN}` : row(at)))
          at += 1
          return undefined
        },
        cancel: onCancel,
      },
      { highWaterMark: 0 },
    )
    return { status: 200, text: () => never(), body }
  }
const clientWith = (fetch: Fetch, requestTimeoutMs = 100) =>
  createClient({ url: 'http://x', fetch, requestTimeoutMs })

describe.each<[string, Fetch]>([
  ['a fetch that never responds', never],
  ['a fetch whose body never arrives', sendRows(0)],
])('%s, ignoring the signal', (_, unresponsive) => {
  test('rejects at its deadline', async () => {
    await expect(clientWith(unresponsive).execute('select 1')).rejects.toMatchObject(timeoutFailure)
  })

  test('rejects when the signal is aborted, and when the client is closed', async () => {
    const controller = new AbortController()
    const db = clientWith(unresponsive, 2_000)
    const abortedCall = db.execute('select 1', [], { signal: controller.signal })
    const closedCall = db.execute('select 1')
    const rejections = Promise.all([
      expect(abortedCall).rejects.toBe(abortReason),
      expect(closedCall).rejects.toMatchObject(closedFailure),
    ])
    await pause(10)
    controller.abort(abortReason)
    await db.close()
    await rejections
  })
})

test.each([
  ['with undefined', undefined, 'no response from http://x: undefined'],
  ['with null', null, 'no response from http://x: null'],
  ['with a string', 'no way', 'no response from http://x: no way'],
  [
    'with an error of another realm',
    runInNewContext("new TypeError('no way')"),
    'no response from http://x: no way',
  ],
  [
    'with an object that has only toString',
    { toString: () => 'no way' },
    'no response from http://x: no way',
  ],
  ['with an object without a prototype', Object.create(null), 'no response from http://x: [object Object]'],
])('reports a network error if fetch rejects %s', async (_, reason, message) => {
  const db = clientWith(() => Promise.reject(reason))
  await expect(db.execute('insert into t values (1)')).rejects.toMatchObject({ code: 'NETWORK', message })
})

test('reports a network error if fetch rejects with an error that is its own cause', async () => {
  const cyclic = new Error('circular cause')
  cyclic.cause = cyclic
  await expect(
    clientWith(() => Promise.reject(cyclic)).execute('insert into t values (1)'),
  ).rejects.toMatchObject({ code: 'NETWORK', message: expect.stringContaining('circular cause') })
})

test.each<unknown>([undefined, null, 5, {}])(
  'reports a protocol error if the text of a response is %j',
  async (text) => {
    const db = clientWith(async () => ({ status: 200, text: async () => text as string }))
    await expect(db.execute('insert into t values (1)')).rejects.toMatchObject({ code: 'PROTOCOL' })
  },
)

test.each([null, false])('an abort with %j rejects with exactly that value', async (reason) => {
  const controller = new AbortController()
  const call = clientWith(never, 2_000).execute('select 1', [], { signal: controller.signal })
  setTimeout(() => controller.abort(reason), 10)
  await expect(call).rejects.toBe(reason)
})

test('aborted writes with a fetch that ignores its signal do not keep their permits', async () => {
  let ignoresRequests = true
  const db = createClient({
    url: 'http://x',
    concurrency: 1,
    requestTimeoutMs: 5_000,
    fetch: async () => (ignoresRequests ? never() : { status: 500, text: async () => 'the next one' }),
  })
  const write = db.execute('insert into t values (1)', [], { timeoutMs: 20 })
  await expect(write).rejects.toMatchObject({ ...timeoutFailure, outcome: 'unknown' })
  ignoresRequests = false
  await expect(db.execute('insert into t values (2)')).rejects.toMatchObject({ body: 'the next one' })
})

describe('rows over fetch', () => {
  test('slow consumption does not time out', async () => {
    let signal: AbortSignal | undefined
    const db = clientWith((url, init) => {
      signal = init.signal
      return sendRows(3)(url, init)
    })
    const rows = readRows(db, 'select a')
    for (const a of [0, 1, 2]) {
      expect(await rows.next()).toEqual({ done: false, value: { a } })
      await pause(150)
      expect(signal?.aborted).toBe(false)
    }
    await rows.return()
  })

  test.each([0, 1])('rejects at the deadline if the rows stop after %j', async (count) => {
    let isCanceled = false
    const db = clientWith(sendRows(count, () => void (isCanceled = true)))
    const rows = readRows(db, 'select a')
    for (let index = 0; index < count; index++) await rows.next()
    await expect(rows.next()).rejects.toMatchObject(timeoutFailure)
    await expect.poll(() => isCanceled, { timeout: 60_000 }).toBe(true)
  })

  test('rejects at the deadline if the rows never begin', async () => {
    await expect(readRows(clientWith(never), 'select a').next()).rejects.toMatchObject(timeoutFailure)
  })

  test('rejects at the deadline even if the stream cannot be canceled', async () => {
    const rows = readRows(clientWith(sendRows(0, never)), 'select a')
    await expect(rows.next()).rejects.toMatchObject(timeoutFailure)
  })

  test.each([1, 5])('ends after %j rows when the client is closed', async (count) => {
    const db = clientWith(sendRows(count), 10_000)
    const rows = readRows(db, 'select a')
    await rows.next()
    const next = count === 1 ? rows.next() : null
    await Promise.all([
      db.close(),
      expect(next ?? pause(10).then(() => rows.next())).rejects.toMatchObject(closedFailure),
    ])
    await expect(readRows(db, 'select a').next()).rejects.toThrow('the client is closed')
  })

  test('ends when the signal is aborted while no part is being read', async () => {
    const controller = new AbortController()
    const rows = readRows(clientWith(sendRows(5)), 'select a', [], { signal: controller.signal })
    await rows.next()
    controller.abort(abortReason)
    await expect(rows.next()).rejects.toBe(abortReason)
  })
})

test('a cursor that was rejected with 429 is retried, because nothing was executed', async () => {
  let requestCount = 0
  const db = clientWith(async (url, init) => {
    requestCount += 1
    if (requestCount < 3) return { status: 429, text: async () => '', body: null }
    return await sendRows(1)(url, init)
  }, 2_000)
  const row = await readRows(db, 'insert into t values (1) returning a').next()
  expect(row).toEqual({ done: false, value: { a: 0 } })
  expect(requestCount).toBe(3)
})

describe('node', () => {
  const requestTo = (origin: string): TransportRequest => ({
    method: 'POST',
    origin,
    path: '/',
    headers: {},
    body: '',
  })

  test('a request that is aborted while the connection pool is set up is not sent', async () => {
    let requests = 0
    const { url } = await serveHttp(() => {
      requests += 1
    })
    const transport = createTransport()
    onTestFinished(() => transport.close())
    const exchange = transport.request(requestTo(url))
    exchange.abort()
    await expect(exchange.response).rejects.toMatchObject({ code: 'NETWORK', outcome: 'not_applied' })
    await pause(50)
    expect([exchange.isSent, requests]).toEqual([false, 0])
  })

  test.each(['new', 'used'])('a %s transport sends nothing after it is closed', async (state) => {
    const transport = createTransport()
    const request = requestTo('http://127.0.0.1:1')
    if (state === 'used')
      await expect(transport.request(request).response).rejects.toMatchObject({ code: 'NETWORK' })
    await transport.close()
    await transport.close()
    const exchange = transport.request(request)
    await expect(exchange.response).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
  })

  test('if no connection can be made for a cursor, its request was not sent', async () => {
    const db = createClient({ url: 'http://127.0.0.1:1' })
    onTestFinished(() => db.close())
    const failure = { name: 'TransportError', code: 'NETWORK', outcome: 'not_applied' }
    await expect(readRows(db, 'insert into t values (1)').next()).rejects.toMatchObject(failure)
  })
})
