import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { FetchTransport, openBody } from './fetch.ts'
import { createTransport } from './node.ts'
import type { Fetch, TransportRequest } from './transport.ts'

const requestOf = (options: Partial<TransportRequest> = {}): TransportRequest => ({
  method: 'POST',
  origin: 'http://127.0.0.1:1',
  path: '/',
  headers: {},
  body: '',
  timeoutMs: 100,
  signal: undefined,
  ...options,
})
const never = <T>(): Promise<T> => new Promise<T>(() => {})
const mine = new Error('mine')
const isLate = { name: 'TransportError', code: 'TIMEOUT', outcome: 'unknown' }
const isClosed = new TypeError('the client is closed')

/** Answers with a body of `count` parts, and then with silence; deaf to the signal. */
const serving =
  (count: number, onCancel = (): void | Promise<void> => {}): Fetch =>
  async () => {
    let at = 0
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (at === count) return never()
        controller.enqueue(Uint8Array.of(at++))
        return undefined
      },
      cancel: onCancel,
    })
    return { status: 200, text: () => never(), body }
  }

describe.each<[string, Fetch]>([
  ['a fetch that never answers', never],
  ['a fetch whose text never comes', serving(0)],
])('%s, deaf to the signal', (_, deaf) => {
  test('meets its deadline', async () => {
    await expect(new FetchTransport(deaf).request(requestOf())).rejects.toMatchObject(isLate)
  })

  test('ends with the signal, and with the transport', async () => {
    const controller = new AbortController()
    const transport = new FetchTransport(deaf)
    const aborted = transport.request(requestOf({ timeoutMs: 2_000, signal: controller.signal }))
    const closed = transport.request(requestOf({ timeoutMs: 2_000 }))
    const ends = Promise.all([expect(aborted).rejects.toBe(mine), expect(closed).rejects.toThrow(isClosed)])
    await pause(10)
    controller.abort(mine)
    await transport.close()
    await ends
  })
})

describe('a body over fetch', () => {
  const open = async (fetch: Fetch, options?: Partial<TransportRequest>) => {
    const transport = new FetchTransport(fetch)
    const { parts } = await openBody(transport, requestOf(options))
    return { transport, parts: parts[Symbol.asyncIterator]() }
  }

  test('may be read slowly', async () => {
    let signal: AbortSignal | undefined
    const { parts } = await open((url, init) => {
      signal = init.signal
      return serving(3)(url, init)
    })
    for (const value of [0, 1, 2]) {
      expect(await parts.next()).toEqual({ done: false, value: Uint8Array.of(value) })
      await pause(150)
      expect(signal?.aborted).toBe(false)
    }
    await parts.return?.()
  })

  test.each([0, 1])('that falls silent after %j parts meets the deadline', async (count) => {
    let cancelled = false
    const { parts } = await open(
      serving(count, () => {
        cancelled = true
      }),
    )
    for (let at = 0; at < count; at++) await parts.next()
    await expect(parts.next()).rejects.toMatchObject(isLate)
    expect(cancelled).toBe(true)
  })

  test('that never begins meets the deadline', async () => {
    await expect(open(never)).rejects.toMatchObject(isLate)
  })

  test('whose stream cannot even be ended meets the deadline', async () => {
    const { parts } = await open(serving(0, never))
    await expect(parts.next()).rejects.toMatchObject(isLate)
  })

  test.each([1, 5])('of %j parts ends with the transport', async (count) => {
    const { transport, parts } = await open(serving(count), { timeoutMs: Infinity })
    await parts.next()
    const next = count === 1 ? parts.next() : null
    await Promise.all([
      transport.close(),
      expect(next ?? pause(10).then(() => parts.next())).rejects.toThrow(isClosed),
    ])
    await expect(openBody(transport, requestOf())).rejects.toThrow(isClosed)
  })

  test('ends with the signal while nobody reads', async () => {
    const controller = new AbortController()
    const { parts } = await open(serving(5), { signal: controller.signal })
    await parts.next()
    controller.abort(mine)
    await expect(parts.next()).rejects.toBe(mine)
  })
})

test('node: an abort while the connections are made ready is heard', async () => {
  let requests = 0
  const server = createServer(() => {
    requests += 1
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const transport = createTransport()
  onTestFinished(async () => {
    await transport.close()
    server.close()
  })
  const controller = new AbortController()
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const answer = transport.request(requestOf({ origin, timeoutMs: 1_000, signal: controller.signal }))
  controller.abort(mine)
  await expect(answer).rejects.toBe(mine)
  expect(requests).toBe(0)
})
