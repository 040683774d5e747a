import { beforeEach, expect, test, vi } from 'vitest'
import { WriteLock, type Writer } from './write-lock.ts'

class TestWriter implements Writer {
  isRunning = false
  preemptions = 0

  onPreempted(): void {
    this.preemptions += 1
  }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))

function setUp() {
  const lock = new WriteLock()
  const [a, b, c] = [new TestWriter(), new TestWriter(), new TestWriter()]
  const order: string[] = []
  const wait = (name: string, writer: Writer): void => {
    const acquired = lock.acquire(writer)
    if (acquired === null) order.push(name)
    else void acquired.then(() => order.push(name))
  }
  return { lock, a, b, c, order, wait }
}

const microtasks = () => new Promise((resolve) => setImmediate(resolve))

test('the lock passes to waiters in the order of arrival', async () => {
  const { lock, a, b, c, order, wait } = setUp()
  wait('a', a)
  wait('a again', a)
  wait('b', b)
  wait('c', c)
  expect(order).toEqual(['a', 'a again'])
  lock.release(a)
  await microtasks()
  expect(order).toEqual(['a', 'a again', 'b'])
  lock.release(b)
  await microtasks()
  expect(order.at(-1)).toBe('c')
})

test('a holder with a waiter loses the lock 5 s after it acquired it, regardless of when the waiter arrived', async () => {
  const { lock, a, b, order, wait } = setUp()
  wait('a', a)
  vi.advanceTimersByTime(3_000)
  wait('b', b)
  vi.advanceTimersByTime(1_999)
  expect(a.preemptions).toBe(0)
  vi.advanceTimersByTime(1)
  await microtasks()
  expect([a.preemptions, order]).toEqual([1, ['a', 'b']])
  expect([lock.isHeldBy(a), lock.isHeldBy(b)]).toEqual([false, true])
})

test('without a waiter the lock is not preempted; a waiter that arrives after 5 s gets the lock at once', async () => {
  const { a, b, order, wait } = setUp()
  wait('a', a)
  vi.advanceTimersByTime(60_000)
  expect(a.preemptions).toBe(0)
  wait('b', b)
  vi.advanceTimersByTime(0)
  await microtasks()
  expect([a.preemptions, order]).toEqual([1, ['a', 'b']])
})

test('a holder with a running request is preempted only once the request has ended', async () => {
  const { lock, a, b, order, wait } = setUp()
  wait('a', a)
  a.isRunning = true
  wait('b', b)
  vi.advanceTimersByTime(9_000)
  expect(a.preemptions).toBe(0)
  a.isRunning = false
  lock.onRequestEnd(a)
  vi.advanceTimersByTime(0)
  await microtasks()
  expect([a.preemptions, order]).toEqual([1, ['a', 'b']])
})

test('a canceled waiter is rejected and skipped, and its timer preempts no holder', async () => {
  const { lock, a, b, c, order, wait } = setUp()
  wait('a', a)
  const acquired = lock.acquire(b)
  lock.cancel(b, new Error('aborted'))
  await expect(acquired).rejects.toThrow('aborted')
  lock.cancel(b, new Error('no longer waiting'))
  vi.advanceTimersByTime(6_000)
  expect(a.preemptions).toBe(0)
  wait('c', c)
  lock.release(a)
  await microtasks()
  expect(order).toEqual(['a', 'c'])
})

test('each holder has its own limit of 5 s', async () => {
  const { a, b, c, order, wait } = setUp()
  wait('a', a)
  wait('b', b)
  wait('c', c)
  vi.advanceTimersByTime(5_000)
  await microtasks()
  vi.advanceTimersByTime(4_999)
  expect([a.preemptions, b.preemptions]).toEqual([1, 0])
  vi.advanceTimersByTime(1)
  await microtasks()
  expect([b.preemptions, order]).toEqual([1, ['a', 'b', 'c']])
})
