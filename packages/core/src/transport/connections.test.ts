import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { TestHttpServer } from '../../../../test/support/test-http-server.ts'
import { KEEP_ALIVE_MS } from '../base/limits.ts'
import { createTransport } from './node.ts'
import type { Exchange, Transport } from './transport.ts'

// While a process is frozen, the wall clock advances and timers do not. In these tests, the clock stops until it is set forward,
// and timers run as usual.

let server: TestHttpServer
let transport: Transport
let connections: number
/** Responses to requests to `/later`, which are delayed. */
let delayed: ServerResponse[]
let aheadMs: number

beforeEach(async () => {
  connections = 0
  delayed = []
  aheadMs = 0
  const start = Date.now()
  vi.spyOn(Date, 'now').mockImplementation(() => start + aheadMs)
  server = await new TestHttpServer().listen()
  server.http.on('request', (request, response) => {
    if (request.url === '/later') delayed.push(response)
    else response.end('answer')
  })
  server.http.on('connection', () => (connections += 1))
  transport = createTransport()
})
afterEach(async () => {
  vi.restoreAllMocks()
  await transport.close()
  await server.close()
})

const send = (path: string): Exchange => {
  return transport.request({ method: 'GET', origin: server.url, path, headers: {}, body: null })
}
const get = async (): Promise<number> => {
  expect((await send('/').response).text).toBe('answer')
  return connections
}
const sendDelayed = async (): Promise<Exchange> => {
  const exchange = send('/later')
  await expect.poll(() => delayed.length).toBeGreaterThan(0)
  return exchange
}

test('a request made right after a response reuses its connection', async () => {
  for (let count = 0; count < 5; count++) expect(await get()).toBe(1)
  const caller = async (): Promise<void> => {
    for (let count = 0; count < 10; count++) await send('/').response
  }
  await Promise.all(Array.from({ length: 8 }, caller))
  expect(connections).toBe(8)
})

test('a request made right after a response and aborted at once is not sent', async () => {
  await get()
  const exchange = send('/later')
  expect(exchange.isSent).toBe(false)
  exchange.abort()
  await expect(exchange.response).rejects.toMatchObject({ outcome: 'not_applied' })
  expect(await get()).toBe(1)
  expect([exchange.isSent, delayed.length]).toEqual([false, 0])
})

test('a request made right after a response when the client is closed is rejected, and was not sent', async () => {
  await get()
  const { response } = send('/later')
  const rejected = expect(response).rejects.toMatchObject({ name: 'TransportError', outcome: 'not_applied' })
  await transport.close()
  await rejected
  expect(delayed).toEqual([])
})

test('reuses a connection that was just used', async () => {
  expect(await get()).toBe(1)
  aheadMs += KEEP_ALIVE_MS - 1_000
  expect(await get()).toBe(1)
  aheadMs += KEEP_ALIVE_MS - 1_000
  expect(await get()).toBe(1)
})

test.each([KEEP_ALIVE_MS, 3_600_000, -1_000])(
  'does not reuse a connection that was last used %i ms ago',
  async (ms) => {
    expect(await get()).toBe(1)
    aheadMs += ms
    expect(await get()).toBe(2)
    expect(await get()).toBe(2)
  },
)

test('a response counts as use', async () => {
  const { response } = await sendDelayed()
  aheadMs += KEEP_ALIVE_MS - 1_000
  delayed[0]?.end('later')
  expect((await response).text).toBe('later')
  aheadMs += KEEP_ALIVE_MS - 1_000
  expect(await get()).toBe(1)
})

test('a slow response does not count as use, because the process may have been frozen', async () => {
  // one idle connection, and one with the request
  const first = send('/')
  const { response } = await sendDelayed()
  await first.response
  expect(connections).toBe(2)
  aheadMs += 3_600_000
  delayed[0]?.end('late')
  expect((await response).text).toBe('late')
  expect(await get()).toBe(3)
})

test('requests in flight on an old connection are completed', async () => {
  const { response } = await sendDelayed()
  aheadMs += KEEP_ALIVE_MS
  expect(await get()).toBe(2)
  delayed[0]?.end('late')
  expect((await response).text).toBe('late')
  expect(await get()).toBe(2)
})

test('requests in flight on an old connection are aborted when the client is closed', async () => {
  const { response } = await sendDelayed()
  aheadMs += KEEP_ALIVE_MS
  expect(await get()).toBe(2)
  const canceled = expect(response).rejects.toMatchObject({ name: 'TransportError', outcome: 'unknown' })
  await transport.close()
  await canceled
})

test('a request that waits for the connection of the last response is rejected when the client is closed', async () => {
  await send('/').response
  const waiting = expect(send('/').response).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
  await transport.close()
  await waiting
})
