import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { type ServiceResponse, toResponse } from '@batonsql/server-common/http'
import { expect, test, vi } from 'vitest'
import { serviceRequest } from '../../../test/server/service-request.ts'
import { InspectorFeed } from './inspector-feed.ts'

const BATON = 'A'.repeat(64)

const request = (body: string) =>
  serviceRequest(body, { headers: { authorization: 'Bearer SECRET-TOKEN' }, remoteAddress: '127.0.0.1' })

/** Returns all events so far, except the first, which describes the server. */
async function readEvents(feed: InspectorFeed): Promise<Record<string, unknown>[]> {
  const page = feed.open()
  if (page === null) throw new Error('the feed is full')
  const [first] = (await page.take(1).toArray()) as Buffer[]
  page.destroy()
  return (JSON.parse(String(first).slice('data: '.length)) as Record<string, unknown>[]).slice(1)
}

/** Sends a body through a feed with an open page, to a server that returns the given response. */
async function observe(
  body: string,
  overrides: Partial<ServiceResponse>,
  feed = new InspectorFeed({ version: 'v' }),
) {
  const page = feed.open()
  const response = await feed.watch('app', request(body), async (forwarded) => {
    expect(await text(forwarded.body)).toBe(body)
    return { status: 200, headers: {}, body: '{"baton":null,"results":[]}', ...overrides }
  })
  const received = await toResponse(response).text()
  page?.destroy()
  return { events: await readEvents(feed), received }
}

const statement = (sql: string): string =>
  JSON.stringify({
    requests: [{ type: 'execute', stmt: { sql, args: [{ type: 'text', value: 'SECRET-ARG' }] } }],
  })

test('is active while a page is open; at most eight pages can connect', async () => {
  const feed = new InspectorFeed({ version: 'v' })
  expect(feed.isWatched).toBe(false)
  const pages = Array.from({ length: 8 }, () => feed.open())
  expect([feed.isWatched, pages.includes(null), feed.open()]).toEqual([true, false, null])
  for (const page of pages) page?.destroy()
  await new Promise(setImmediate)
  expect(feed.isWatched).toBe(false)
})

test('sends a heartbeat to an idle page; without a page, no timer runs', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const feed = new InspectorFeed({ version: 'v' })
  const page = feed.open()
  expect(String(page?.read())).toContain('"version":"v"')
  vi.advanceTimersToNextTimer()
  expect(String(page?.read())).toBe('data: []\n\n')
  page?.destroy()
  await new Promise(setImmediate)
  expect(vi.getTimerCount()).toBe(0)
})

test('emits statements, but neither arguments, nor tokens, nor batons', async () => {
  const results = [{ type: 'ok', response: { type: 'execute', result: { rows: [[], []], rows_read: 7 } } }]
  const body = JSON.stringify({ baton: BATON, results })
  const { events, received } = await observe(statement('select ?'), { body })
  expect(received).toBe(body)
  expect(events).toMatchObject([
    { type: 'request', n: 1, database: 'app', statements: [{ sql: 'select ?', effects: ['other'] }] },
    { type: 'response', n: 1, status: 200, rows: 2, rowsRead: 7, outcomes: ['ok'], isOpen: true },
  ])
  expect(JSON.stringify(events)).not.toMatch(/SECRET|AAAA/)
})

test('each baton identifies a stream, and is valid for one request', async () => {
  const feed = new InspectorFeed({ version: 'v' })
  const open = { body: JSON.stringify({ baton: BATON, results: [] }) }
  await observe('{"baton":null,"requests":[]}', open, feed)
  await observe(`{"baton":"${BATON}","requests":[]}`, {}, feed)
  const { events } = await observe(`{"baton":"${BATON}","requests":[]}`, {}, feed)
  const streams = events.filter(({ type }) => type === 'request').map(({ stream }) => stream)
  expect(streams).toEqual([1, 1, 2])
})

test.each([
  ['invalid JSON', '{{{'],
  ['an array instead of an object', '[1]'],
  ['wrong types', '{"requests":[{"type":"execute","stmt":{"sql":"select 1"}},{"type":"execute","stmt":7}]}'],
  ['requests that are not a list', '{"requests":{"length":4}}'],
])('forwards a body with %s unchanged', async (_, body) => {
  const { events } = await observe(body, { status: 400, body: 'no' })
  expect(events).toMatchObject([{ type: 'request' }, { type: 'response', status: 400, error: 'no' }])
  expect(events[0]?.['statements']).toEqual([])
})

test('long SQL, long lists of statements and large bodies are truncated; their sizes are still reported', async () => {
  const requests = Array.from({ length: 60 }, () => ({ type: 'execute', stmt: { sql: 'x'.repeat(5_000) } }))
  const { events } = await observe(JSON.stringify({ requests }), {
    body: Readable.from([Buffer.alloc(2 ** 21)]),
  })
  const [first, response] = events
  const statements = first?.['statements'] as { sql: string }[]
  expect([statements.length, first?.['more'], statements[0]?.sql.length]).toEqual([50, 10, 2_001])
  expect(response).toMatchObject({ bytes: 2 ** 21, rows: 0 })
  const large = await observe(statement('y'.repeat(2 ** 20)), {})
  expect(large.events[0]).toMatchObject({ statements: [], stream: null })
})

test('a server error is shown and rethrown', async () => {
  const feed = new InspectorFeed({ version: 'v' })
  const page = feed.open()
  const failing = feed.watch('app', request('{}'), () => Promise.reject(new Error('it broke')))
  await expect(failing).rejects.toThrow('it broke')
  page?.destroy()
  expect(await readEvents(feed)).toMatchObject([{ type: 'request' }, { status: null, error: 'it broke' }])
})

test('a response that is destroyed before it is read destroys its source', async () => {
  const feed = new InspectorFeed({ version: 'v' })
  const body = new Readable({ read() {} })
  const response = await feed.watch('app', request('{}'), () =>
    Promise.resolve({ status: 200, headers: {}, body }),
  )
  ;(response.body as Readable).destroy()
  await new Promise(setImmediate)
  expect(body.destroyed).toBe(true)
})

test('keeps the latest events, up to its limits', async () => {
  const feed = new InspectorFeed({ version: 'v' })
  for (let n = 0; n < 2_003; n += 1) feed.sendNotice('app', String(n))
  const byCount = await readEvents(feed)
  expect([byCount.length, byCount[0]?.['text'], byCount.at(-1)?.['text']]).toEqual([2_000, '3', '2002'])
  feed.sendNotice('app', 'x'.repeat(1_024 ** 2))
  feed.sendNotice('app', 'y'.repeat(1_024 ** 2))
  expect((await readEvents(feed)).map(({ text: notice }) => String(notice)[0])).toEqual(['y'])
  feed.sendNotice('app', 'z'.repeat(3 * 1_024 ** 2))
  expect((await readEvents(feed)).map(({ text: notice }) => String(notice)[0])).toEqual(['z'])
})

test('sends notices about a server, even to pages that are opened later', async () => {
  const feed = new InspectorFeed({ version: 'v' })
  feed.sendNotice('app', 'it was restarted')
  expect(await readEvents(feed)).toEqual([
    { type: 'notice', at: expect.any(Number), database: 'app', text: 'it was restarted' },
  ])
})
