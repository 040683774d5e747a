import { Readable } from 'node:stream'
import { beforeEach, expect, test, vi } from 'vitest'
import { UnreadResponseGuard } from './unread-response-guard.ts'

const SECOND = 1_000

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
})

/** Returns a guarded body that contains 60,000 unread bytes. */
function createBody(isContended = (): boolean => true): Readable {
  const guard = new UnreadResponseGuard(isContended)
  const body = new Readable({ read: () => {} })
  body.on('error', () => {})
  guard.watch(body)
  const part = Buffer.alloc(60_000)
  guard.watcher.onPart?.(part)
  body.push(part)
  return body
}

test('a client that reads slowly is not cut off, until it stops', () => {
  const body = createBody()
  for (let second = 0; second < 10; second += 1) {
    expect(body.read(5_000)).toHaveLength(5_000)
    vi.advanceTimersByTime(SECOND)
  }
  vi.advanceTimersByTime(3 * SECOND)
  expect(body.destroyed).toBe(false)
  vi.advanceTimersByTime(3 * SECOND)
  expect(body.errored?.message).toContain('the response was not read')
})

test('a client that reads nothing is cut off, but only while other writers are waiting', () => {
  const [contended, uncontended] = [createBody(), createBody(() => false)]
  vi.advanceTimersByTime(6 * SECOND)
  expect([contended.destroyed, uncontended.destroyed]).toEqual([true, false])
  uncontended.destroy()
})

test('the time before other writers arrive counts, as it does for the limit of the server', () => {
  let isContended = false
  const body = createBody(() => isContended)
  vi.advanceTimersByTime(6 * SECOND)
  expect(body.destroyed).toBe(false)
  isContended = true
  vi.advanceTimersByTime(SECOND)
  expect(body.destroyed).toBe(true)
})

test('a client that waits for the server is not cut off', () => {
  const body = createBody()
  body.read(60_000)
  vi.advanceTimersByTime(60 * SECOND)
  expect(body.destroyed).toBe(false)
  body.destroy()
})

test('no timer is left when the body is closed, or was closed before', async () => {
  const body = createBody()
  expect(vi.getTimerCount()).toBe(1)
  const closed = new Promise((resolve) => body.once('close', resolve))
  body.destroy()
  await closed
  new UnreadResponseGuard(() => true).watch(body)
  expect(vi.getTimerCount()).toBe(0)
})
