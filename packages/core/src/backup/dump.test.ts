import type { ServerResponse } from 'node:http'
import { describe, expect, test, vi } from 'vitest'
import { cleanUp, respond, scripted, status } from '../../test-support/scripted-server.ts'
import { HttpError, ProtocolError, TransportError } from '../base/errors.ts'
import { createClient } from '../client/client.ts'
import type { ClientEvent } from '../observe/events.ts'
import { type Dump, dump } from './dump.ts'

const DUMP = "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nINSERT INTO t VALUES('a;b');\nCOMMIT;\n"
const STATEMENTS = DUMP.split('\n')
  .slice(0, -1)
  .map((line) => `${line}\n`)

const readAll = async (source: Dump): Promise<string[]> => {
  const statements: string[] = []
  for await (const statement of source) statements.push(statement)
  return statements
}
const readBytes = (source: Dump): Promise<string> => new Response(source.bytes()).text()
/** The two ways to read a dump. */
const READERS = [
  ['as statements', readAll],
  ['as bytes', readBytes],
] as const

test('ignores informational responses', async () => {
  const { db } = await scripted((_, response) => {
    response.writeEarlyHints({ link: '</style.css>; rel=preload' })
    response.writeProcessing()
    response.end(DUMP)
  })
  expect(await readAll(dump(db))).toEqual(STATEMENTS)
})

test('the statements together equal the bytes', async () => {
  const { db, received } = await scripted((_, response) => response.end(DUMP))
  expect(await readAll(dump(db))).toEqual(STATEMENTS)
  expect(await readBytes(dump(db, { preserveRowIds: true }))).toBe(DUMP)
  expect(received.map(({ url }) => url)).toEqual(['/dump', '/dump?preserve_row_ids=true'])
})

test('each chunk has memory of its own', async () => {
  const { db } = await scripted((_, response) => response.end(DUMP))
  for await (const chunk of dump(db).bytes()) expect(chunk.buffer.byteLength).toBe(chunk.byteLength)
})

test('reads chunks of any size, even through a custom fetch', async () => {
  const writePieces = async (response: ServerResponse): Promise<void> => {
    for (const char of DUMP) {
      response.write(char)
      await new Promise(setImmediate)
    }
    response.end()
  }
  const { db, url } = await scripted((_, response) => void writePieces(response))
  expect(await readAll(dump(db))).toEqual(STATEMENTS)
  const withCustomFetch = createClient({ url, fetch: (address, init) => fetch(address, init) })
  cleanUp.push(() => withCustomFetch.close())
  expect(await readAll(dump(withCustomFetch))).toEqual(STATEMENTS)
})

test('sends nothing until it is read, and can be read only once', async () => {
  const { db, received } = await scripted((_, response) => response.end(DUMP))
  const source = dump(db)
  const stream = dump(db).bytes()
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(received).toEqual([])
  await stream.cancel()
  await readAll(source)
  expect(() => source.bytes()).toThrow('a dump can be read only once')
  expect(() => dump(db, { preserveRowids: true } as object)).toThrow('preserveRowids')
})

describe.each(READERS)('%s', (_, read) => {
  test('rejects a truncated dump, whether the response ends early or the connection breaks', async () => {
    for (const cut of [0, 10, 30, DUMP.length - 9, DUMP.length - 3]) {
      const clean = await scripted((_, response) => response.end(DUMP.slice(0, cut)))
      await expect(read(dump(clean.db))).rejects.toThrow(ProtocolError)
      const broken = await scripted((_, response) => {
        response.writeHead(200, { 'content-length': DUMP.length })
        response.write(DUMP.slice(0, cut), () => response.destroy())
      })
      await expect(read(dump(broken.db))).rejects.toThrow(TransportError)
    }
  })

  test.each([
    ['HTML', '<!doctype html><html></html>'],
    ['other text with the same ending', 'SELECT 1;\nCOMMIT;\n'],
    ['text with COMMIT inside a value', "PRAGMA foreign_keys=OFF;\nINSERT INTO t VALUES(' COMMIT;\n"],
  ])('rejects text that is not a dump: %s', async (_, text) => {
    const { db } = await scripted((_, response) => response.end(text))
    await expect(read(dump(db))).rejects.toThrow(ProtocolError)
  })

  test.each([
    [400, '{"error":"database is not a primary"}'],
    [401, '{"error":"Unauthorized"}'],
    [502, '<html>Bad gateway</html>'],
    [502, '{"error":"libsql-server exited, or closed the connection"}'],
    [502, '{"error":"the group is archived"}'],
  ])('rejects HTTP %d with an HttpError', async (code, text) => {
    const { db, received } = await scripted(status(code, text))
    const error = await read(dump(db)).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(HttpError)
    expect(error).toMatchObject({ status: code, body: text })
    // a proxy does not know why libsql-server has closed the connection
    expect(String(error).includes('libsql-server ends a dump')).toBe(/Bad gateway|closed/.test(text))
    // a read that gets 502 is retried
    expect(received).toHaveLength(code === 502 ? 3 : 1)
  })

  test('rejects if the server becomes unresponsive, before or during the response', async () => {
    const unresponsive = await scripted(() => {})
    await expect(read(dump(unresponsive.db, { timeoutMs: 50 }))).rejects.toMatchObject({ code: 'TIMEOUT' })
    const stalled = await scripted((_, response) => response.write(DUMP.slice(0, 50)))
    await expect(read(dump(stalled.db, { timeoutMs: 50 }))).rejects.toMatchObject({ code: 'TIMEOUT' })
  })

  test('waits for a slow server', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const { readable, writable } = new TransformStream<string, string>()
    const body = readable.pipeThrough(new TextEncoderStream())
    const fetch = async () => ({ status: 200, text: async () => '', body })
    const db = createClient({ url: 'http://x', fetch })
    const result = read(dump(db, { timeoutMs: 600 }))
    const writer = writable.getWriter()
    for (const line of STATEMENTS) {
      await writer.write(line)
      await vi.advanceTimersByTimeAsync(500)
    }
    await writer.close()
    expect([await result].flat().join('')).toBe(DUMP)
  })

  test('rejects when the signal is aborted or the client is closed', async () => {
    const { db } = await scripted((_, response) => response.write(DUMP.slice(0, 50)))
    await expect(read(dump(db, { signal: AbortSignal.abort('why') }))).rejects.toBe('why')
    const stop = new AbortController()
    setTimeout(() => stop.abort('enough'), 40)
    await expect(read(dump(db, { signal: stop.signal }))).rejects.toBe('enough')
    setTimeout(() => void db.close(), 40)
    await expect(read(dump(db))).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(read(dump(db))).rejects.toThrow('the client is closed')
  })
})

test.each(['canceling', 'aborting'])(
  '%s the byte stream stops the dump on the server, and the client can close at once',
  async (how) => {
    const disconnected = Promise.withResolvers<void>()
    const { db } = await scripted((_, response) => {
      response.on('close', disconnected.resolve)
      response.write(DUMP.slice(0, -9))
    })
    const stop = new AbortController()
    const reader = dump(db, { signal: stop.signal }).bytes().getReader()
    await reader.read()
    if (how === 'aborting') stop.abort('enough')
    else await reader.cancel()
    await disconnected.promise
    if (how === 'aborting') await expect(reader.read()).rejects.toBe('enough')
    await db.close({ drainMs: 5_000 })
  },
)

test('leaving the loop over statements closes the connection', async () => {
  const disconnected = Promise.withResolvers<void>()
  const { db } = await scripted((_, response) => {
    response.on('close', disconnected.resolve)
    response.write(`PRAGMA foreign_keys=OFF;\n${"INSERT INTO t VALUES('x');\n".repeat(10_000)}`)
  })
  for await (const statement of dump(db)) if (statement.startsWith('INSERT')) break
  await disconnected.promise
})

test('reports its request to `observe`', async () => {
  const events: ClientEvent[] = []
  const { db } = await scripted((_, response) => response.end(DUMP), {
    observe: (event) => events.push(event),
  })
  await readAll(dump(db))
  const request = { type: 'request', method: 'GET', path: '/dump', status: 200 }
  expect(events).toMatchObject([{ ...request, requestBytes: 0, responseBytes: DUMP.length }])
})

test('the stack of the error contains the caller', async () => {
  const { db } = await scripted(status(401, '{}'))
  const error = await readAll(dump(db)).catch((error: unknown) => error)
  expect((error as Error).stack).toContain('dump.test.ts')
})

test('sends the token', async () => {
  const { db, received } = await scripted((_, response) => respond(response, DUMP), {
    authToken: async () => 'secret',
  })
  await readAll(dump(db))
  expect(received[0]?.headers.authorization).toBe('Bearer secret')
})
