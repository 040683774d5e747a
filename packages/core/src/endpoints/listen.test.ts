import { getEventListeners } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { ManualClock } from '../../test-support/manual-clock.ts'
import { inOrder, type Script, scripted, status } from '../../test-support/scripted-server.ts'
import { HttpError, ProtocolError, TransportError } from '../base/errors.ts'
import { resolveConfig } from '../config.ts'
import { Http } from '../http/http.ts'
import type { ClientEvent } from '../observe/events.ts'
import { type ChangeEvent, type ListenOptions, listen, readEvents } from './listen.ts'

const changes = (text: string): string => `event:changes\ndata:${text}\n\n`
const begin = (response: ServerResponse, text = ''): ServerResponse => {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.flushHeaders()
  if (text) response.write(text)
  return response
}
const NO_CHANGES = { insert: 0, update: 0, delete: 0, unknown: 0 }

/** Returns the first events of a listener, and the error that it then throws. */
async function collect(
  script: Script,
  count: number,
  options: Partial<ListenOptions> = {},
): Promise<{ events: ChangeEvent[]; error: unknown; urls: string[]; observed: ClientEvent[] }> {
  const observed: ClientEvent[] = []
  const { db, received } = await scripted(script, { observe: (event) => observed.push(event) })
  const events: ChangeEvent[] = []
  let error: unknown = null
  try {
    for await (const event of listen(db, { table: 't', ...options })) {
      events.push(event)
      if (events.length === count) break
    }
  } catch (thrown) {
    error = thrown
  }
  return { events, error, urls: received.map(({ url }) => url), observed }
}

/** A listener that waits for its first event for 150 ms, and whose time and responses the test controls. */
async function readyListener() {
  const clock = new ManualClock()
  const bodies: ReadableStreamDefaultController<Uint8Array>[] = []
  const observed: ClientEvent[] = []
  const fetch = async () => ({
    status: 200,
    text: async () => '',
    body: new ReadableStream<Uint8Array>({ start: (body) => void bodies.push(body) }),
  })
  const observe = (event: ClientEvent): void => void (event.type === 'retry' && observed.push(event))
  const http = new Http(resolveConfig({ url: 'http://x', fetch, observe }), clock)
  const request = { path: '/beta/listen?table=t', signal: undefined, idleTimeoutMs: 150 }
  const events = readEvents(http, request)
  expect(await events.next()).toMatchObject({ value: { type: 'ready' } })
  return { clock, bodies, observed, events, next: events.next() }
}

test('reports the counts of each transaction, regardless of white space and of where the text is split', async () => {
  const text = [
    ': a comment\n\n',
    changes('{"insert":2}'),
    ':keep-alive\n\n',
    'id: 7\r\nevent: changes\r\ndata: {"delete":1,\r\ndata: "update":3}\r\n\r\n',
    'event:other\ndata:x\n\n',
    changes('{"unknown":4}'),
  ].join('')
  const { events } = await collect((_, response) => {
    begin(response)
    const writeFrom = (at: number): void => {
      if (at < text.length) response.write(text[at], () => setTimeout(writeFrom, 1, at + 1))
    }
    writeFrom(0)
  }, 4)
  expect(events).toEqual([
    { type: 'ready' },
    { type: 'changes', ...NO_CHANGES, insert: 2 },
    { type: 'changes', ...NO_CHANGES, delete: 1, update: 3 },
    { type: 'changes', ...NO_CHANGES, unknown: 4 },
  ])
})

test('requests a table and actions', async () => {
  const script: Script = (_, response) => begin(response)
  expect((await collect(script, 1)).urls).toEqual(['/beta/listen?table=t'])
  const actions = ['insert', 'delete'] as const
  expect((await collect(script, 1, { table: 'a b&c', actions })).urls).toEqual([
    '/beta/listen?table=a+b%26c&action=insert&action=delete',
  ])
})

test('rejects invalid options before anything is sent', async () => {
  const { db, received } = await scripted((_, response) => begin(response))
  const listenWith = async (options: object): Promise<unknown> => listen(db, options as ListenOptions).next()
  for (const options of [{}, { table: '' }])
    await expect(listenWith(options)).rejects.toThrow('name of a table')
  await expect(listenWith({ table: 't', actions: ['upsert'] })).rejects.toThrow("not 'upsert'")
  await expect(listenWith({ table: 't\ud800' })).rejects.toThrow('table has a lone surrogate')
  for (const actions of ['insert', {}, null])
    await expect(listenWith({ table: 't', actions })).rejects.toThrow('actions must be an array, not ')
  await expect(listenWith({ table: 't', action: 'insert' })).rejects.toThrow('unknown option action')
  await expect(listenWith({ table: 't', timeoutMs: 0 })).rejects.toThrow(TypeError)
  expect(received).toEqual([])
})

test('the first connection fails if the server does not respond within the time limit', async () => {
  const { error } = await collect(() => {}, 1, { timeoutMs: 50 })
  expect(error).toMatchObject({ code: 'TIMEOUT', message: expect.stringContaining('within 50 ms') })
})

test('reports that the server dropped some changes', async () => {
  const { events } = await collect((_, response) => {
    begin(response, 'event:error\ndata:some changes were lost\n\n')
    response.write(changes('{"insert":1}'))
  }, 3)
  expect(events).toMatchObject([{ type: 'ready' }, { type: 'lost', reason: 'behind' }, { type: 'changes' }])
})

describe('reconnects', () => {
  const reconnected = [
    { type: 'ready' },
    { type: 'changes', insert: 1 },
    { type: 'lost', reason: 'reconnected' },
    { type: 'changes', insert: 2 },
  ]
  const endFirstResponse =
    (end: (response: ServerResponse) => unknown): Script =>
    (_, response, count) => {
      begin(response, changes(`{"insert":${count}}`))
      if (count === 1) setTimeout(() => end(response), 30)
    }

  test.each([
    ['ended', (response: ServerResponse) => response.end()],
    ['was interrupted', (response: ServerResponse) => response.destroy()],
  ])('because the response %s', async (_, end) => {
    const { events, observed } = await collect(endFirstResponse(end), 4)
    expect(events).toMatchObject(reconnected)
    expect(observed.filter(({ type }) => type === 'retry')).toMatchObject([
      { attempt: 1, error: { code: 'NETWORK' } },
    ])
  })

  test('if the server is unresponsive for too long', async () => {
    const { clock, bodies, observed, next, events } = await readyListener()
    await clock.advance(149)
    expect(observed).toEqual([])
    await clock.advance(1)
    expect(observed).toMatchObject([{ type: 'retry', error: { code: 'TIMEOUT' } }])
    await clock.advance(1_000)
    expect(await next).toMatchObject({ value: { type: 'lost', reason: 'reconnected' } })
    expect(bodies).toHaveLength(2)
    await events.return()
  })

  test('only if no keep-alives arrive', async () => {
    const { clock, bodies, observed, next, events } = await readyListener()
    const [body] = bodies as [ReadableStreamDefaultController<Uint8Array>]
    for (let index = 0; index < 8; index++) {
      await clock.advance(100)
      body.enqueue(new TextEncoder().encode(':keep-alive\n\n'))
      await clock.advance(0)
    }
    body.enqueue(new TextEncoder().encode(changes('{"insert":1}')))
    expect(await next).toMatchObject({ value: { type: 'changes', insert: 1 } })
    expect(bodies).toHaveLength(1)
    expect(observed).toEqual([])
    await events.return()
  })

  test('until the server itself responds, after network failures and proxy errors', async () => {
    const { events, urls } = await collect((_, response, count) => {
      if (count === 1) {
        begin(response, changes('{"insert":1}'))
        setTimeout(() => response.destroy(), 30)
      } else if (count < 4) response.destroy()
      else if (count < 7) status(503, '<html>')(_, response, count)
      else begin(response, changes('{"insert":2}'))
    }, 4)
    expect(events).toMatchObject(reconnected)
    expect(urls).toHaveLength(7)
  })

  test('until the server rejects the request', async () => {
    const beginAndEnd: Script = (_, response) => {
      begin(response)
      setTimeout(() => response.end(), 20)
    }
    const { events, error } = await collect(inOrder(beginAndEnd, status(401, '{"error":"Unauthorized"}')), 9)
    expect(events).toEqual([{ type: 'ready' }])
    expect(error).toBeInstanceOf(HttpError)
    expect(error).toMatchObject({ status: 401 })
  })
})

describe('is ended by', () => {
  test.each([400, 401, 404])('HTTP %d', async (code) => {
    const { error, urls } = await collect(status(code, '{"error":"no"}'), 1)
    expect(error).toBeInstanceOf(HttpError)
    expect(urls).toHaveLength(1)
  })

  test('a failure of the first connection', async () => {
    const { error } = await collect((_, response) => response.destroy(), 1)
    expect(error).toBeInstanceOf(TransportError)
    expect((error as Error).stack).toContain('listen.test.ts')
  })

  test.each([
    ['HTML', '<html>\n<body>\n'],
    ['an event that is too large', `data:${'x'.repeat(1_100_000)}`],
    ['data that is not JSON', changes('many')],
  ])('%s', async (_, text) => {
    const { error } = await collect((_, response) => begin(response, text), 9)
    expect(error).toBeInstanceOf(ProtocolError)
  })

  test.each<[name: string, contentType: string | null, text: string]>([
    ['HTML', 'text/html; charset=utf-8', '<html>\n<body>\n'],
    ['JSON', 'application/json', '{"error":"no"}'],
    ['JSON in lines', 'application/json', '{}\n{}\n'],
    ['an empty text', 'text/plain', ''],
    ['the events of another type', 'text/event-streams', changes('{"insert":1}')],
    ['HTML without a content type', null, '<html>\n<body>\n'],
    ['JSON without a content type', null, '{"error":"no"}'],
    ['nothing', null, ''],
  ])('%s, before it is ready', async (_, contentType, text) => {
    for (const isFirst of [true, false]) {
      const { events, error, urls } = await collect((_, response, count) => {
        // also when it reconnects
        if (count === 1 && !isFirst) {
          begin(response, changes('{"insert":1}'))
          setTimeout(() => response.end(), 10)
          return
        }
        response.writeHead(200, contentType === null ? {} : { 'content-type': contentType })
        response.end(text)
      }, 9)
      expect(error).toBeInstanceOf(ProtocolError)
      expect(error).toMatchObject({ outcome: 'not_applied' })
      const before = isFirst ? [] : [{ type: 'ready' }, { type: 'changes', insert: 1 }]
      expect(events).toMatchObject(before)
      expect(urls).toHaveLength(isFirst ? 1 : 2)
    }
  })

  test('empty event streams, of which only a few in a row are tolerated', async () => {
    const { events, error, urls } = await collect((_, response, count) => {
      begin(response, count === 3 ? ':keep-alive\n\n' : '')
      response.end()
    }, 99)
    expect(events.map(({ type }) => type)).toEqual(['ready', ...Array.from({ length: 5 }, () => 'lost')])
    expect(error).toBeInstanceOf(ProtocolError)
    expect(urls).toHaveLength(6)
  })

  test('nothing, if events arrive without a content type', async () => {
    const { events } = await collect((_, response) => {
      response.writeHead(200)
      response.write(`:\n\n${changes('{"insert":1}')}`)
    }, 2)
    expect(events).toMatchObject([{ type: 'ready' }, { type: 'changes', insert: 1 }])
  })

  test('the signal, while it waits for an event or to connect', async () => {
    for (const script of [
      (_: unknown, response: ServerResponse) => begin(response),
      (_: unknown, response: ServerResponse, count: number) => {
        if (count > 1) return response.destroy()
        begin(response)
        return setTimeout(() => response.destroy(), 10)
      },
    ]) {
      const { db } = await scripted(script)
      const stop = new AbortController()
      const events = listen(db, { table: 't', signal: stop.signal })
      expect(await events.next()).toMatchObject({ value: { type: 'ready' } })
      setTimeout(() => stop.abort('enough'), 50)
      await expect(events.next()).rejects.toBe('enough')
    }
  })

  test('closing the client, which does not wait for the listener', async () => {
    const { db } = await scripted((_, response) => begin(response))
    const listener = listen(db, { table: 't' })
    await listener.next()
    const next = listener.next()
    const closed = db.close({ drainMs: 5_000 })
    await expect(next).rejects.toMatchObject({ code: 'CLOSED' })
    await closed
    await expect(listen(db, { table: 't' }).next()).rejects.toThrow('the client is closed')
  })

  describe.each(['return', 'throw'] as const)('%s() of the iterator', (method) => {
    const ownError = new Error('own error')

    test.each<[string, Script]>([
      ['for an event', (_, response) => begin(response)],
      ['to reconnect', (_, response, count) => (count > 1 ? response.destroy() : begin(response).end())],
    ])('while a next() waits %s', async (_, script) => {
      const { db } = await scripted(script)
      const { signal } = new AbortController()
      const iterator = listen(db, { table: 't', signal })
      await iterator.next()
      const next = iterator.next()
      await pause(20)
      if (method === 'throw') await expect(iterator.throw(ownError)).rejects.toBe(ownError)
      else expect(await iterator.return()).toEqual({ done: true, value: undefined })
      expect(await next).toEqual({ done: true, value: undefined })
      expect(await iterator.next()).toEqual({ done: true, value: undefined })
      expect(getEventListeners(signal, 'abort')).toHaveLength(0)
    })

    test('between two events, and before the first', async () => {
      const { db, received } = await scripted((_, response) => begin(response))
      for (const readsFirst of [true, false]) {
        const iterator = listen(db, { table: 't' })
        if (readsFirst) await iterator.next()
        if (method === 'throw') await expect(iterator.throw(ownError)).rejects.toBe(ownError)
        else expect(await iterator.return()).toEqual({ done: true, value: undefined })
        expect(await iterator.next()).toEqual({ done: true, value: undefined })
      }
      expect(received).toHaveLength(1)
    })
  })

  test('canceling a ReadableStream of the events, which aborts the request', async () => {
    const disconnected = Promise.withResolvers<void>()
    const { db } = await scripted((_, response) => {
      response.on('close', disconnected.resolve)
      begin(response)
    })
    const reader = ReadableStream.from(listen(db, { table: 't' })).getReader()
    await reader.read()
    const pending = reader.read()
    await pause(20)
    await reader.cancel()
    expect((await pending).done).toBe(true)
    await disconnected.promise
  })

  test('leaving the loop, which aborts the request', async () => {
    const disconnected = Promise.withResolvers<void>()
    const { events } = await collect((_, response) => {
      response.on('close', disconnected.resolve)
      begin(response)
    }, 1)
    expect(events).toHaveLength(1)
    await disconnected.promise
  })
})
