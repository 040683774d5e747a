import type { DatabaseId } from '@batonsql/server-common/backend'
import { PipelineFailure } from '@batonsql/server-common/hrana'
import { beforeEach, expect, test, vi } from 'vitest'
import { StreamTable } from './stream-table.ts'

const A = 'a' as DatabaseId
const B = 'b' as DatabaseId

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))

function setUp() {
  const expired: number[] = []
  return { expired, table: new StreamTable((_, stream) => expired.push(stream)) }
}

function catchFailure(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    if (error instanceof PipelineFailure) return `${error.status} ${error.body}`
    throw error
  }
  return 'none'
}

test('a baton has 64 characters, changes each time and is valid once', async () => {
  const { table } = setUp()
  const first = table.release(await table.open(A)) as string
  expect(first).toMatch(/^[A-Za-z0-9+/]{64}$/)
  const second = table.release(table.resume(first, A)) as string
  expect(second).not.toBe(first)
  expect(catchFailure(() => table.resume(first, A))).toBe('400 Received a baton that has already been used')
  expect(table.release(table.resume(second, A))).not.toBeNull()
})

test('a baton is not valid while a request is using its stream', async () => {
  const { table } = setUp()
  const baton = table.release(await table.open(A)) as string
  table.resume(baton, A)
  expect(catchFailure(() => table.resume(baton, A))).toBe('400 Received a baton that has already been used')
})

test('rejects malformed batons, batons from another server, for another database, or for a closed stream', async () => {
  const { table } = setUp()
  const otherTable = setUp().table
  const stream = await table.open(A)
  const baton = table.release(stream) as string
  const invalidBatons = [
    '',
    'x',
    baton.slice(1),
    `${baton.slice(0, 63)}!`,
    otherTable.release(await otherTable.open(A)) as string,
  ]
  for (const invalidBaton of invalidBatons)
    expect(catchFailure(() => table.resume(invalidBaton, A))).toBe('400 Received an invalid baton')
  expect(catchFailure(() => table.resume(baton, B))).toBe('400 Received an invalid baton')
  table.close(stream)
  expect(catchFailure(() => table.resume(baton, A))).toBe('400 Received an invalid baton')
})

test('an idle stream expires after 10 s, is reported as expired for 300 s, and is then unknown', async () => {
  const { table, expired } = setUp()
  vi.advanceTimersByTime(250)
  const baton = table.release(await table.open(A)) as string
  vi.advanceTimersByTime(10_000)
  expect(expired).toEqual([])
  vi.advanceTimersByTime(750) // the next whole second
  expect(expired).toEqual([1])
  const body = '{"message":"The stream has expired due to inactivity","code":"STREAM_EXPIRED"}'
  expect(catchFailure(() => table.resume(baton, A))).toBe(`400 ${body}`)
  vi.advanceTimersByTime(300_000)
  expect(catchFailure(() => table.resume(baton, A))).toBe('400 Received an invalid baton')
})

test('a stream does not expire while a request is in flight', async () => {
  const { table, expired } = setUp()
  const stream = await table.open(A)
  vi.advanceTimersByTime(60_000)
  const baton = table.release(stream) as string
  vi.advanceTimersByTime(9_000)
  table.resume(baton, A)
  vi.advanceTimersByTime(60_000)
  expect(expired).toEqual([])
})

test('opens at most 128 streams; a free slot goes to the request that has waited longest, and others are rejected with 429 after a second', async () => {
  const { table } = setUp()
  const streams = await Promise.all(Array.from({ length: 128 }, () => table.open(A)))
  const order: string[] = []
  const first = table.open(A).then(() => order.push('first'))
  const second = table.open(B).then(
    () => order.push('second'),
    (error: PipelineFailure) => order.push(`${error.status} ${error.body}`),
  )
  table.close(streams[0] as number)
  await first
  vi.advanceTimersByTime(1_000)
  await second
  expect(order).toEqual(['first', '429 {"error":"Timed out while opening database connection"}'])
  expect([table.countOpen(A), table.countOpen(B)]).toEqual([128, 0])
})

test('an expired stream frees its slot once', async () => {
  const { table } = setUp()
  const streams = await Promise.all(Array.from({ length: 128 }, () => table.open(A)))
  const [expiredStream = 0] = streams
  table.release(expiredStream)
  vi.advanceTimersByTime(11_000)
  const opening = table.open(A)
  vi.advanceTimersByTime(1_000)
  await opening
  table.close(expiredStream)
  const rejectedOpen = table.open(A)
  vi.advanceTimersByTime(1_000)
  await expect(rejectedOpen).rejects.toBeInstanceOf(PipelineFailure)
})

test('after its database is closed, an expired stream is still reported as expired, and an open one is unknown', async () => {
  const { table } = setUp()
  const expiredBaton = table.release(await table.open(A)) as string
  vi.advanceTimersByTime(11_000)
  const openBaton = table.release(await table.open(A)) as string
  table.closeStreams(A)
  expect(catchFailure(() => table.resume(expiredBaton, A))).toContain('STREAM_EXPIRED')
  expect(catchFailure(() => table.resume(openBaton, A))).toBe('400 Received an invalid baton')
})

test('a stream can be resumed only by a client that is allowed to attach all databases attached to it', async () => {
  const { table } = setUp()
  const stream = await table.open(A)
  table.attach(stream, B)
  const baton = table.release(stream) as string
  expect(catchFailure(() => table.resume(baton, A, true, (id) => id !== B))).toBe(
    '400 Received an invalid baton',
  )
  // the rejection has not used up the baton
  expect(table.resume(baton, A, true, (id) => id === B)).toEqual(stream)
})

test('closes only the streams that have a database attached', async () => {
  const { table } = setUp()
  const [attaching, other] = [await table.open(A), await table.open(A)]
  const attached = table.getAttached(attaching)
  table.attach(attaching, B)
  expect(attached).toEqual([B])
  expect(table.closeAttaching(B)).toEqual([{ database: A, stream: attaching }])
  expect([table.has(attaching), table.has(other)]).toEqual([false, true])
  expect(table.closeAttaching(B)).toEqual([])
  // a request that is still running on the closed stream may still attach a database
  expect(() => table.attach(attaching, B)).not.toThrow()
})
