import type { Readable } from 'node:stream'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ACTIONS, type Action, ChangeFeed } from './change-feed.ts'

const NO_CHANGES = { unknown: 0, delete: 0, insert: 0, update: 0 }

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function listen(feed: ChangeFeed, table: string, ...actions: Action[]): Readable {
  return feed.listen({ table, actions: new Set(actions.length === 0 ? ACTIONS : actions) })
}

/** Reads the events sent to a listener so far. */
function readEvents(stream: Readable): string {
  let text = ''
  const read = (): Buffer | null => stream.read() as Buffer | null
  for (let part = read(); part !== null; part = read()) text += part.toString('utf8')
  return text
}

test('is watched from the time the first listener connects until the last one disconnects', async () => {
  const states: boolean[] = []
  const feed = new ChangeFeed((isWatched) => states.push(isWatched))
  const [first, second] = [listen(feed, 't'), listen(feed, 'u')]
  expect(states).toEqual([true])
  const closed = [first, second].map((stream) => new Promise((resolve) => stream.once('close', resolve)))
  first.destroy()
  second.destroy()
  await Promise.all(closed)
  expect([states, feed.isWatched]).toEqual([[true, false], false])
})

test('reports all changes of a transaction to listeners that match its table and one of its actions', () => {
  const feed = new ChangeFeed(() => {})
  const [allActions, deletes, otherTable] = [
    listen(feed, 't'),
    listen(feed, 't', 'delete'),
    listen(feed, 'u'),
  ]
  feed.publish([{ ...NO_CHANGES, table: 't', insert: 2, update: 1 }])
  feed.publish([
    { ...NO_CHANGES, table: 'x', insert: 1 },
    { ...NO_CHANGES, table: 't', insert: 1, delete: 3 },
  ])
  const [first, second] = [
    'event:changes\ndata:{"insert":2,"update":1}\n\n',
    'event:changes\ndata:{"delete":3,"insert":1}\n\n',
  ]
  expect([readEvents(allActions), readEvents(deletes), readEvents(otherTable)]).toEqual([
    first + second,
    second,
    '',
  ])
})

test('sends a keep-alive to an idle stream every 15 s', () => {
  const feed = new ChangeFeed(() => {})
  const stream = listen(feed, 't')
  expect(readEvents(stream)).toBe('')
  vi.advanceTimersByTime(14_999)
  expect(readEvents(stream)).toBe('')
  vi.advanceTimersByTime(1)
  expect(readEvents(stream)).toBe(':keep-alive\n\n')
  vi.advanceTimersByTime(10_000)
  feed.publish([{ ...NO_CHANGES, table: 't', update: 1 }])
  expect(readEvents(stream)).toBe('event:changes\ndata:{"update":1}\n\n')
  vi.advanceTimersByTime(14_999)
  expect(readEvents(stream)).toBe('')
  vi.advanceTimersByTime(1)
  expect(readEvents(stream)).toBe(':keep-alive\n\n')
})

test('notifies a listener that is too slow that changes were lost, and sends the rest', () => {
  const feed = new ChangeFeed(() => {})
  const stream = listen(feed, 't')
  stream.read(0)
  for (let count = 1; count <= 3_000; count += 1) feed.publish([{ ...NO_CHANGES, table: 't', insert: count }])
  const events = readEvents(stream).split('\n\n').filter(Boolean)
  const lossIndex = events.indexOf('event:error\ndata:some changes were lost')
  expect(lossIndex).toBeGreaterThanOrEqual(0)
  expect(events.length - lossIndex - 1).toBe(1_024)
  expect(events.at(-1)).toBe('event:changes\ndata:{"insert":3000}')
})

test('removing the database ends the stream', async () => {
  const feed = new ChangeFeed(() => {})
  const stream = listen(feed, 't')
  const ended = new Promise((resolve) => stream.once('end', resolve))
  stream.resume()
  feed.end()
  await ended
})

test('a listener that is not reading when the database is removed receives nothing more', async () => {
  const feed = new ChangeFeed(() => {})
  const stream = listen(feed, 't')
  const errors: Error[] = []
  stream.on('error', (error) => errors.push(error))
  stream.read(0)
  feed.end()
  feed.publish([{ ...NO_CHANGES, table: 't', insert: 1 }])
  feed.reportLoss()
  vi.advanceTimersByTime(60_000)
  expect([readEvents(stream), errors]).toEqual(['', []])
  await vi.runAllTimersAsync()
  expect(errors).toEqual([])
})
