import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { Pool } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { bytesOf, discard, exchange, TruncatedResponseError } from './exchange.ts'

/** A pool for a server with this handler, which receives the number of the request, starting at 1. */
async function serve(respond: (response: http.ServerResponse, count: number) => void): Promise<Pool> {
  let count = 0
  const server = http.createServer((_, response) => {
    count += 1
    respond(response, count)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const pool = new Pool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { connections: 1 })
  onTestFinished(async () => {
    await pool.destroy()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return pool
}

const REQUEST = { method: 'POST', path: '/v3/pipeline', body: '{}' }

test('returns a small response as bytes, and one that is large or of unknown length as a stream', async () => {
  const sizes = [0, 65_536, 65_537]
  const pool = await serve((response, count) => {
    const size = sizes[count - 1]
    if (size === undefined) response.write('a')
    response.end(size === undefined ? 'b' : Buffer.alloc(size))
  })
  for (const size of sizes) {
    const response = await exchange(pool, REQUEST, undefined)
    expect(response.body instanceof Readable).toBe(size > 65_536)
    expect((await bytesOf(response)).length).toBe(size)
  }
  const response = await exchange(pool, REQUEST, undefined)
  expect([response.body instanceof Readable, String(await bytesOf(response))]).toEqual([true, 'ab'])
})

test('waits for the required beginning of a response, and keeps all of its bytes', async () => {
  const pool = await serve((response) => {
    response.write('first\n')
    setImmediate(() => response.end('second'))
  })
  const hasEnough = (begun: Buffer): boolean => begun.includes('second')
  const response = await exchange(pool, REQUEST, undefined, hasEnough)
  expect(String(await bytesOf(response))).toBe('first\nsecond')
  const never = await exchange(pool, REQUEST, undefined, () => false)
  expect(never.body).toEqual(Buffer.from('first\nsecond'))
})

test('reports a connection that is closed before a response, during a buffered one, and during a streamed one', async () => {
  const pool = await serve((response, count) => {
    if (count > 1) {
      response.writeHead(200, count === 2 ? { 'content-length': 10 } : {})
      response.write('begun')
    }
    setImmediate(() => response.destroy())
  })
  await expect(exchange(pool, REQUEST, undefined)).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' })
  const error: unknown = await exchange(pool, REQUEST, undefined).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(TruncatedResponseError)
  expect(String((error as TruncatedResponseError).begun)).toBe('begun')
  const response = await exchange(pool, REQUEST, undefined)
  await expect(bytesOf(response)).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' })
})

test('handles an abort before the request is sent, while it waits, and while its response arrives', async () => {
  const arrived: number[] = []
  let release = (): void => {}
  const pool = await serve((response, count) => {
    arrived.push(count)
    response.write('begun')
    release = () => response.end()
  })
  const reason = new Error('the client has disconnected')
  await expect(exchange(pool, REQUEST, AbortSignal.abort(reason))).rejects.toBe(reason)

  const first = await exchange(pool, REQUEST, undefined)
  // the only connection is in use
  const waiting = new AbortController()
  const second = exchange(pool, REQUEST, waiting.signal)
  waiting.abort(reason)
  await expect(second).rejects.toBe(reason)
  release()
  expect(String(await bytesOf(first))).toBe('begun')

  const leaving = new AbortController()
  const third = await exchange(pool, REQUEST, leaving.signal)
  leaving.abort(reason)
  await expect(bytesOf(third)).rejects.toBe(reason)
  expect(arrived).toEqual([1, 2])
})

test('closes the connection if a reader stops early, and reuses it after a discarded response', async () => {
  let closed = 0
  const pool = await serve((response, count) => {
    response.once('close', () => {
      if (!response.writableFinished) closed += 1
    })
    response.write('begun')
    if (count > 1) response.end()
  })
  const { body } = await exchange(pool, REQUEST, undefined)
  ;(body as Readable).destroy()
  discard(await exchange(pool, REQUEST, undefined))
  expect(String(await bytesOf(await exchange(pool, REQUEST, undefined)))).toBe('begun')
  expect(closed).toBe(1)
})
