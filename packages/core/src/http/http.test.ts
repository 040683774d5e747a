import { expect, test, vi } from 'vitest'
import {
  answer,
  cleanUp,
  disconnect,
  executed,
  ifIncludes,
  inOrder,
  noResponse,
  respond,
  scripted,
  status,
  streams,
} from '../../test-support/scripted-server.ts'
import { HttpError } from '../base/errors.ts'
import { type Client, createClient } from '../client/client.ts'
import { readRows } from '../client/read-rows.ts'
import { isHealthy, serverVersion } from '../endpoints/server-status.ts'
import type { Fetch } from '../transport/transport.ts'

// Requests to servers that respond incorrectly. Each test scripts its own.

const timedOut = { code: 'TIMEOUT', outcome: 'not_applied' }
const WRITE = 'insert into t values (1)'
const neverReturns = () => new Promise<string>(() => {})

test.each([
  [401, 'Unauthorized: `no`', /HTTP 401: Unauthorized.*authToken/],
  [404, '{"error":"Namespace `a` doesn\'t exist"}', /doesn't exist.*URL/],
  [429, '{"error":"Too many concurrent requests"}', /429.*later/],
  [500, '{"error":"invalid utf-8"}', /invalid utf-8/],
  [502, '<html><h1>Bad gateway</h1></html>', /HTTP 502$/],
  [502, '\n\n<!DOCTYPE html><h1>Bad gateway</h1>', /HTTP 502$/],
  [503, '', /HTTP 503$/],
  [302, '', /HTTP 302$/],
])('HTTP %i becomes an HttpError', async (code, text, message) => {
  const { db } = await scripted(status(code, text))
  const error = await db.execute('select 1').catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(HttpError)
  expect(error).toMatchObject({ code: 'HTTP_STATUS', status: code, body: text })
  expect((error as HttpError).message).toMatch(message)
})

test.each([
  ['HTML with status 200', '<html></html>'],
  ['an empty body', ''],
  ['other JSON', '{"hello":1}'],
  ['null', 'null'],
  ['results of another kind', '{"results":5}'],
  ['no result', '{"baton":null,"results":[]}'],
])('%s is a protocol error', async (_, body) => {
  const { db } = await scripted((__, response) => respond(response, body))
  await expect(db.execute('select 1')).rejects.toMatchObject({ code: 'PROTOCOL' })
  await expect(db.batch(['select 1'])).rejects.toMatchObject({ code: 'PROTOCOL' })
  const lost = { code: 'TRANSACTION_LOST', outcome: 'not_applied', cause: { code: 'PROTOCOL' } }
  await expect(db.transaction((tx) => tx.execute('select 1'))).rejects.toMatchObject(lost)
})

test.each([502, 503, 504, 429])('a read is retried after HTTP %i', async (code) => {
  const failure = status(code, '<html>')
  const { db, received } = await scripted(inOrder(failure, failure, answer))
  expect((await db.execute('select 1')).rows).toEqual([{ a: 1 }])
  expect(received).toHaveLength(3)
})

test('a read, but not a write, is retried on a replica that has not received the database yet', async () => {
  const error = 'Error parsing auth header: Expected authorization header but none given'
  const unauthorized = status(500, JSON.stringify({ error }))
  const { db, received } = await scripted(inOrder(unauthorized, answer, unauthorized))
  expect((await db.execute('select 1')).rows).toEqual([{ a: 1 }])
  await expect(db.execute(WRITE)).rejects.toMatchObject({ status: 500, outcome: 'unknown' })
  expect(received).toHaveLength(3)
})

test('a read is retried when the connection breaks, and sent at most three times in total', async () => {
  const { db, received } = await scripted(disconnect)
  await expect(db.execute('select 1')).rejects.toMatchObject({ code: 'NETWORK' })
  expect(received).toHaveLength(3)
})

test.each([
  ['a write', (db: Client) => db.execute('insert into t values (1)')],
  ['a WITH that writes', (db: Client) => db.execute('with x as (select 1) insert into t select * from x')],
  ['a pragma', (db: Client) => db.execute('pragma user_version = 5')],
  ['a batch with a write', (db: Client) => db.batch(['select 1', 'delete from t'])],
  ['a read declared as a write', (db: Client) => db.execute('select f()', [], { readOnly: false })],
])('%s is not retried if it may have run', async (_, call) => {
  const { db, received } = await scripted(disconnect)
  await expect(call(db)).rejects.toMatchObject({ code: 'NETWORK', outcome: 'unknown' })
  expect(received).toHaveLength(1)
})

test('a statement in a transaction is not retried; nothing was kept, because it was not committed', async () => {
  const { db, received } = await scripted(disconnect)
  await expect(db.transaction((tx) => tx.execute('select 1'))).rejects.toMatchObject({
    code: 'TRANSACTION_LOST',
    outcome: 'not_applied',
    lastSql: 'select 1',
    elapsedMs: expect.any(Number),
    cause: { code: 'NETWORK' },
  })
  expect(received).toHaveLength(1)
})

test('a write is retried after HTTP 429, because it was not executed', async () => {
  const tooMany = status(429, '{"error":"Too many concurrent requests"}')
  const { db, received } = await scripted(inOrder(tooMany, answer))
  await db.execute(WRITE)
  expect(received).toHaveLength(2)
})

test('does not retry if the server requests a delay beyond the deadline', async () => {
  const { db, received } = await scripted((_, response) => {
    response.writeHead(503, { 'retry-after': '600' })
    response.end()
  })
  const call = db.execute('select 1', [], { timeoutMs: 60_000 })
  await expect(call).rejects.toMatchObject({ status: 503, retryAfterMs: 600_000 })
  expect(received).toHaveLength(1)
})

test('a retry that the deadline leaves no time for takes nothing from the budget', async () => {
  const { db, received } = await scripted((request, response, count) => {
    if (count > 11) return respond(response, executed)
    if (count === 11) return status(503, '')(request, response, count)
    response.writeHead(429, { 'retry-after': '600' })
    response.end()
  })
  for (let call = 0; call < 10; call++)
    await expect(db.execute('select 1')).rejects.toMatchObject({ status: 429 })
  await db.execute('select 1')
  expect(received).toHaveLength(12)
})

test('a delay can be a date', () => {
  vi.useFakeTimers({ now: Date.parse('2015-10-21T07:28:00Z'), toFake: ['Date'] })
  const read = (retryAfter: string): number | null => new HttpError(503, '', '', retryAfter).retryAfterMs
  expect(read('Wed, 21 Oct 2015 07:28:30 GMT')).toBe(30_000)
  expect(['Wed, 21 Oct 2015 07:27:59 GMT', '-5', 'soon', ''].map(read)).toEqual([null, null, null, null])
})

test('an abort ends the wait between two attempts', async () => {
  const reason = new Error('own error')
  const controller = new AbortController()
  const { db, received } = await scripted((_, response) => {
    response.writeHead(503, { 'retry-after': '5' })
    response.end(() => setTimeout(() => controller.abort(reason), 30))
  })
  await expect(db.execute('select 1', [], { signal: controller.signal })).rejects.toBe(reason)
  expect(received).toHaveLength(1)
})

test('requests to a failing server share a retry budget', async () => {
  const { db, received } = await scripted(status(503, ''))
  await Promise.allSettled(Array.from({ length: 50 }, () => db.execute('select 1')))
  expect(received).toHaveLength(60)
})

test('ten successful calls restore one retry', async () => {
  let isHealthyNow = false
  const { db, received } = await scripted((...args) => (isHealthyNow ? answer : status(503, ''))(...args))
  const attempts = async (calls: number): Promise<number> => {
    const before = received.length
    await Promise.allSettled(Array.from({ length: calls }, () => db.execute('select 1')))
    return received.length - before
  }
  expect(await attempts(5)).toBe(15)
  expect(await attempts(1)).toBe(1)
  isHealthyNow = true
  expect(await attempts(11)).toBe(11)
  isHealthyNow = false
  expect(await attempts(1)).toBe(2)
})

test('with maxRetries: 0, a request is sent once', async () => {
  const { db, received } = await scripted(status(503, ''), { maxRetries: 0 })
  await expect(db.execute('select 1')).rejects.toMatchObject({ status: 503, outcome: 'not_applied' })
  expect(received).toHaveLength(1)
})

test('if no server is listening, the request was not sent', async () => {
  const db = createClient({ url: 'http://127.0.0.1:1' })
  cleanUp.push(() => db.close())
  const message = expect.stringMatching(/127\.0\.0\.1:1.*ECONNREFUSED/)
  await expect(db.execute('select 1')).rejects.toMatchObject({
    code: 'NETWORK',
    outcome: 'not_applied',
    message,
  })
})

test('if the response is truncated, a read has changed nothing, and the outcome of a write is unknown', async () => {
  const { db } = await scripted((_, response) => {
    response.writeHead(200, { 'content-length': '1000' })
    response.write('{"baton":null,')
    setImmediate(() => response.destroy())
  })
  await expect(db.execute('select 1')).rejects.toMatchObject({ code: 'NETWORK', outcome: 'not_applied' })
  await expect(db.execute('delete from t')).rejects.toMatchObject({ code: 'NETWORK', outcome: 'unknown' })
  const asRead = db.execute('pragma optimize', [], { readOnly: true })
  await expect(asRead).rejects.toMatchObject({ code: 'NETWORK', outcome: 'not_applied' })
})

test('a call to a server that never responds rejects at its deadline', async () => {
  const { db } = await scripted(noResponse, { requestTimeoutMs: 40 })
  const message = expect.stringContaining('40 ms')
  await expect(db.execute('select 1')).rejects.toMatchObject({ ...timedOut, message })
})

test('the deadline includes reading the body', async () => {
  const { db } = await scripted((_, response) => {
    response.writeHead(200)
    response.write('{')
  })
  await expect(db.execute('select 1', [], { timeoutMs: 40 })).rejects.toMatchObject({ code: 'TIMEOUT' })
})

test('the deadline includes queueing; a request that is still queued when it passes is never sent', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const { db, received } = await scripted(noResponse, { concurrency: 1 })
  const first = db.execute('select 1', [], { timeoutMs: 120 })
  await expect.poll(() => received.length).toBe(1)
  const queued = db.execute('select 2', [], { timeoutMs: 30 })
  vi.advanceTimersByTime(30)
  await expect(queued).rejects.toMatchObject(timedOut)
  vi.advanceTimersByTime(90)
  await expect(first).rejects.toMatchObject(timedOut)
  expect(received.map(({ body }) => body)).toEqual([expect.stringContaining('select 1')])
})

test('the deadline includes fetching the token, and the signal ends that wait', async () => {
  const { db, received } = await scripted(answer, { authToken: neverReturns })
  await expect(db.execute('select 1', [], { timeoutMs: 30 })).rejects.toMatchObject(timedOut)
  const reason = new Error('changed my mind')
  const controller = new AbortController()
  const call = db.execute('select 1', [], { signal: controller.signal, timeoutMs: Infinity })
  setTimeout(() => controller.abort(reason), 10)
  await expect(call).rejects.toBe(reason)
  expect(received).toEqual([])
})

test('a call that hangs does not delay others', async () => {
  const { db } = await scripted(ifIncludes('hang', noResponse, answer))
  const hanging = expect(db.execute('select hang', [], { timeoutMs: 200 })).rejects.toMatchObject(timedOut)
  for (let i = 0; i < 5; i++) expect((await db.execute('select 1')).rows).toEqual([{ a: 1 }])
  await hanging
})

test("an aborted call rejects with the signal's reason", async () => {
  const { db, received } = await scripted(noResponse)
  const reason = new Error('changed my mind')
  await expect(db.execute('select 1', [], { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  expect(received).toHaveLength(0)
  const controller = new AbortController()
  const call = db.execute('select 1', [], { signal: controller.signal })
  setTimeout(() => controller.abort(reason), 20)
  await expect(call).rejects.toBe(reason)
})

test.each([0, -1, Number.NaN, 2 ** 31])('rejects a deadline of %o', async (timeoutMs) => {
  const { db, received } = await scripted(noResponse)
  await expect(db.execute('select 1', [], { timeoutMs })).rejects.toThrow(TypeError)
  expect(received).toHaveLength(0)
})

test('sends the token and the headers; a token function is called for each request', async () => {
  let count = 0
  const { db, received } = await scripted(answer, {
    authToken: async () => `token-${(count += 1)}`,
    headers: { 'X-Encryption-Key': 'k' },
    namespace: 'foo',
  })
  await db.execute('select 1')
  await db.execute('select 1')
  expect(received.map(({ headers }) => headers.authorization)).toEqual(['Bearer token-1', 'Bearer token-2'])
  expect(received[0]?.headers).toMatchObject({
    'x-encryption-key': 'k',
    'x-namespace-bin': 'Zm9v',
    'content-type': 'application/json',
  })
})

test('a call with an expired token is rejected and not applied; the next call uses a new token', async () => {
  const tokens = ['old', 'new']
  const { db, received } = await scripted(
    (...args) => (args[0].headers.authorization === 'Bearer new' ? answer : status(401, 'over'))(...args),
    { authToken: async () => tokens.shift() ?? 'none' },
  )
  await expect(db.execute('select 1')).rejects.toMatchObject({ status: 401, outcome: 'not_applied' })
  await db.execute('select 1')
  expect(received).toHaveLength(2)
})

test('an empty token is ignored', async () => {
  for (const authToken of ['', () => '']) {
    const { db, received } = await scripted(answer, { authToken })
    await db.execute('select 1')
    expect(received[0]?.headers.authorization).toBeUndefined()
  }
})

test('a call rejects with the error of the token function', async () => {
  const { db, received } = await scripted(noResponse, {
    authToken: () => {
      throw new Error('no vault')
    },
  })
  await expect(db.execute('select 1')).rejects.toThrow('no vault')
  expect(received).toHaveLength(0)
})

/** Returns what a call rejects with. */
const getReason = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'no rejection',
    (error: unknown) => error,
  )

test.each<[string, unknown]>([
  ['undefined', undefined],
  ['null', null],
  ['an error with the status of another server', Object.assign(new Error('no vault'), { status: 400 })],
])('%s, thrown by a token function, rejects every kind of call', async (_, reason) => {
  const { db, received } = await scripted(noResponse, { authToken: () => Promise.reject(reason) })
  expect(await getReason(db.execute(WRITE))).toBe(reason)
  expect(await getReason(db.batch([WRITE]))).toBe(reason)
  expect(await getReason(db.transaction((tx) => tx.execute(WRITE)))).toBe(reason)
  expect(await getReason(readRows(db, WRITE).next())).toBe(reason)
  expect(received).toHaveLength(0)
})

test('an abort with null rejects a statement of a transaction that is about to be sent', async () => {
  const { db, received } = await scripted(noResponse)
  const controller = new AbortController()
  await db.transaction(async (tx) => {
    const call = tx.execute(WRITE, [], { signal: controller.signal })
    controller.abort(null)
    expect(await getReason(call)).toBeNull()
  })
  expect(received).toHaveLength(0)
})

test('the error of a token function that does not return in time names it', async () => {
  const { db, received } = await scripted(noResponse, { authToken: neverReturns })
  const message = 'authToken() returned no token within 20 ms'
  await expect(db.execute('select 1', [], { timeoutMs: 20 })).rejects.toMatchObject({ ...timedOut, message })
  expect(received).toHaveLength(0)
})

test('an invalid token is rejected without being shown', () => {
  expect(() => createClient({ url: 'http://h', authToken: 'sec\nret' })).toThrow(
    expect.not.objectContaining({ message: expect.stringContaining('sec') }),
  )
})

test('adds the base path to every route', async () => {
  const { url } = await scripted(answer)
  const { received, url: otherUrl } = await scripted(answer)
  expect(url).not.toBe(otherUrl)
  await using db = createClient({ url: `${otherUrl}/some/where/` })
  await db.execute('select 1')
  await isHealthy(db)
  expect(received.map((request) => request.url)).toEqual(['/some/where/v2/pipeline', '/some/where/health'])
})

test('isHealthy() and serverVersion() return what the server reports', async () => {
  const healthy = await scripted((request, response) =>
    response.end(request.url === '/version' ? 'sqld 1.2.3\n' : ''),
  )
  expect(await isHealthy(healthy.db)).toBe(true)
  expect(await serverVersion(healthy.db)).toBe('sqld 1.2.3')
  const failing = await scripted(status(503, ''))
  expect(await isHealthy(failing.db)).toBe(false)
  await expect(serverVersion(failing.db)).rejects.toBeInstanceOf(HttpError)
  const page = await scripted((_, response) => response.end('<!doctype html><title>Sign in</title>'))
  expect(await isHealthy(page.db)).toBe(false)
  await expect(serverVersion(page.db)).rejects.toMatchObject({ code: 'PROTOCOL', outcome: 'not_applied' })
})

test('sends nothing after close, which can be called twice', async () => {
  const { db, received } = await scripted(answer)
  await db.execute('select 1')
  await db.close()
  await db.close()
  await expect(db.execute('select 1')).rejects.toThrow('closed')
  expect(received).toHaveLength(1)
})

test('close aborts calls in flight', async () => {
  const { db } = await scripted(noResponse)
  const call = db.execute('select 1')
  const outcome = expect(call).rejects.toBeInstanceOf(Error)
  setTimeout(() => void db.close(), 20)
  await outcome
})

test('a custom fetch sends all requests', async () => {
  const { url, received } = await scripted(ifIncludes('batch', streams(), answer))
  const fetchedUrls: string[] = []
  const customFetch: Fetch = async (input, init) => {
    fetchedUrls.push(`${init.method} ${input}`)
    expect(init).toMatchObject({ redirect: 'manual', headers: { authorization: 'Bearer t' } })
    return fetch(input, init)
  }
  await using db = createClient({ url, fetch: customFetch, authToken: 't' })
  expect((await db.execute('select 1')).rows).toEqual([{ a: 1 }])
  await db.transaction((tx) => tx.execute('select 1'))
  expect(await isHealthy(db)).toBe(true)
  expect(fetchedUrls).toHaveLength(received.length)
})

test('with a custom fetch, a deadline, an abort, a broken connection and close reject the call', async () => {
  const { url } = await scripted(ifIncludes('break', disconnect, noResponse))
  const db = createClient({ url, fetch: (input, init) => fetch(input, init) })
  await expect(db.execute('select 1', [], { timeoutMs: 30 })).rejects.toMatchObject({ code: 'TIMEOUT' })
  const reason = new Error('own error')
  await expect(db.execute('select 1', [], { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  const controller = new AbortController()
  setTimeout(() => controller.abort(reason), 20)
  await expect(db.execute('select 1', [], { signal: controller.signal })).rejects.toBe(reason)
  await expect(db.execute('select break')).rejects.toMatchObject({ code: 'NETWORK', outcome: 'not_applied' })
  const call = expect(db.execute('select 1')).rejects.toThrow('closed')
  await db.close()
  await call
  await expect(db.execute('select 1')).rejects.toThrow('closed')
})
