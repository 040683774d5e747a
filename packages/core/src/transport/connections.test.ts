import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { KEEP_ALIVE_MS } from '../base/limits.ts'
import { createTransport } from './node.ts'
import type { Exchange, Transport } from './transport.ts'

// The wall's clock goes on while a process is frozen, and timers do not. Here it stands still until it is set forward, and timers run as ever.

let server: Server
let transport: Transport
let connections: number
/** Answers that are kept back, of requests to `/later`. */
let kept: ServerResponse[]
let aheadMs: number

beforeEach(async () => {
  connections = 0
  kept = []
  aheadMs = 0
  const start = Date.now()
  vi.spyOn(Date, 'now').mockImplementation(() => start + aheadMs)
  server = createServer((request, response) => {
    if (request.url === '/later') kept.push(response)
    else response.end('answer')
  })
  server.on('connection', () => (connections += 1))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  transport = createTransport()
})
afterEach(async () => {
  vi.restoreAllMocks()
  await transport.close()
  server.closeAllConnections()
  server.close()
})

const send = (path: string): Exchange => {
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return transport.request({ method: 'GET', origin, path, headers: {}, body: null })
}
const get = async (): Promise<number> => {
  expect((await send('/').answer).text).toBe('answer')
  return connections
}
const sendLater = async (): Promise<Exchange> => {
  const exchange = send('/later')
  await vi.waitUntil(() => kept.length > 0, { interval: 5, timeout: 60_000 })
  return exchange
}

test('what follows on an answer at once has its connection', async () => {
  for (let count = 0; count < 5; count++) expect(await get()).toBe(1)
  const caller = async (): Promise<void> => {
    for (let count = 0; count < 10; count++) await send('/').answer
  }
  await Promise.all(Array.from({ length: 8 }, caller))
  expect(connections).toBe(8)
})

test('what follows on an answer and is given up at once is not sent', async () => {
  await get()
  const given = send('/later')
  expect(given.isSent).toBe(false)
  given.abort()
  expect(await get()).toBe(1)
  expect([given.isSent, kept.length]).toEqual([false, 0])
})

test('what follows on an answer when the client is closed is refused, and was not sent', async () => {
  await get()
  const { answer } = send('/later')
  const refused = expect(answer).rejects.toMatchObject({ name: 'TransportError', outcome: 'not_applied' })
  await transport.close()
  await refused
  expect(kept).toEqual([])
})

test('a connection that was used just now is used again', async () => {
  expect(await get()).toBe(1)
  aheadMs += KEEP_ALIVE_MS - 1_000
  expect(await get()).toBe(1)
  aheadMs += KEEP_ALIVE_MS - 1_000
  expect(await get()).toBe(1)
})

test.each([KEEP_ALIVE_MS, 3_600_000, -1_000])('one that was last used %i ms ago is not', async (ms) => {
  expect(await get()).toBe(1)
  aheadMs += ms
  expect(await get()).toBe(2)
  expect(await get()).toBe(2)
})

test('an answer counts as use', async () => {
  const { answer } = await sendLater()
  aheadMs += KEEP_ALIVE_MS - 1_000
  kept[0]?.end('later')
  expect((await answer).text).toBe('later')
  aheadMs += KEEP_ALIVE_MS - 1_000
  expect(await get()).toBe(1)
})

test('one that was long in coming does not: it may have waited for a process that was frozen', async () => {
  // one connection that is idle, and one with the request
  const first = send('/')
  const { answer } = await sendLater()
  await first.answer
  expect(connections).toBe(2)
  aheadMs += 3_600_000
  kept[0]?.end('late')
  expect((await answer).text).toBe('late')
  expect(await get()).toBe(3)
})

test('what is under way on an old connection comes to its end', async () => {
  const { answer } = await sendLater()
  aheadMs += KEEP_ALIVE_MS
  expect(await get()).toBe(2)
  kept[0]?.end('late')
  expect((await answer).text).toBe('late')
  expect(await get()).toBe(2)
})

test('and is cut off when the client is closed', async () => {
  const { answer } = await sendLater()
  aheadMs += KEEP_ALIVE_MS
  expect(await get()).toBe(2)
  const cut = expect(answer).rejects.toMatchObject({ name: 'TransportError', outcome: 'unknown' })
  await transport.close()
  await cut
})
