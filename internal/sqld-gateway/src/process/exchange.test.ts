import { once } from 'node:events'
import type http from 'node:http'
import { Readable } from 'node:stream'
import { Pool } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { serveHttp } from '../../../../test/support/serve-http.ts'
import { discard, exchange, readBody, TruncatedResponseError } from './exchange.ts'

/** Starts a server and returns a pool for it. @param respond receives the number of the request, from 1 */
async function serve(respond: (response: http.ServerResponse, count: number) => void): Promise<Pool> {
  let count = 0
  const { url } = await serveHttp((_, response) => {
    count += 1
    respond(response, count)
  })
  const pool = new Pool(url, { connections: 1 })
  onTestFinished(() => pool.destroy())
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
    expect((await readBody(response)).length).toBe(size)
  }
  const response = await exchange(pool, REQUEST, undefined)
  expect([response.body instanceof Readable, String(await readBody(response))]).toEqual([true, 'ab'])
})

test('passes on chunks together if they arrived together', async () => {
  const chunks = Array.from({ length: 1_000 }, (_, index) => `row ${index};`)
  const pool = await serve((response) => {
    response.flushHeaders()
    // written in one system call
    for (const chunk of chunks) response.write(chunk)
    response.end()
  })
  const { body } = await exchange(pool, REQUEST, undefined)
  const parts: string[] = []
  // a loop over the stream would join what has already arrived
  await once(
    (body as Readable).on('data', (part: Buffer) => parts.push(String(part))),
    'end',
  )
  expect(parts.join('')).toBe(chunks.join(''))
  expect(parts.length).toBeLessThan(100)
})

test('waits for the required beginning of a response, and keeps all of its bytes', async () => {
  const pool = await serve((response) => {
    response.write('first\n')
    setImmediate(() => response.end('second'))
  })
  const hasEnough = (received: Buffer): boolean => received.includes('second')
  const response = await exchange(pool, REQUEST, undefined, hasEnough)
  expect(String(await readBody(response))).toBe('first\nsecond')
  const buffered = await exchange(pool, REQUEST, undefined, () => false)
  expect(buffered.body).toEqual(Buffer.from('first\nsecond'))
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
  expect(String((error as TruncatedResponseError).received)).toBe('begun')
  const response = await exchange(pool, REQUEST, undefined)
  await expect(readBody(response)).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' })
})

test('handles an abort before a request is sent, while it waits for a connection, and while its response arrives', async () => {
  const received: number[] = []
  let release = (): void => {}
  const pool = await serve((response, count) => {
    received.push(count)
    response.write('begun')
    release = () => response.end()
  })
  const reason = new Error('the client has disconnected')
  await expect(exchange(pool, REQUEST, AbortSignal.abort(reason))).rejects.toBe(reason)

  const first = await exchange(pool, REQUEST, undefined)
  // the only connection is in use
  const queuedAbort = new AbortController()
  const second = exchange(pool, REQUEST, queuedAbort.signal)
  queuedAbort.abort(reason)
  await expect(second).rejects.toBe(reason)
  release()
  expect(String(await readBody(first))).toBe('begun')

  const bodyAbort = new AbortController()
  const third = await exchange(pool, REQUEST, bodyAbort.signal)
  bodyAbort.abort(reason)
  await expect(readBody(third)).rejects.toBe(reason)
  expect(received).toEqual([1, 2])
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
  expect(String(await readBody(await exchange(pool, REQUEST, undefined)))).toBe('begun')
  expect(closed).toBe(1)
})
