import { expect, test } from 'vitest'
import { ManualClock } from '../../test-support/manual-clock.ts'
import { Lifetime } from './lifetime.ts'
import { Limiter } from './limiter.ts'

const onTimeout = (): Error => new Error('late')
const open = (limit: number, queueLimit: number) => {
  const clock = new ManualClock()
  const lifetime = new Lifetime(clock, 'http://x')
  return { clock, lifetime, limiter: new Limiter(lifetime, limit, queueLimit) }
}

test('lets through as many as there is room for, the others in the order in which they came', async () => {
  const { limiter } = open(2, 10)
  expect(limiter.acquire({ onTimeout })).toBe(null)
  expect(limiter.acquire({ onTimeout })).toBe(null)
  const order: number[] = []
  const third = limiter.acquire({ onTimeout })?.promise.then(() => order.push(3))
  const fourth = limiter.acquire({ onTimeout })?.promise.then(() => order.push(4))
  expect(limiter.queued).toBe(2)
  limiter.release()
  await third
  expect(order).toEqual([3])
  limiter.release()
  await fourth
  expect(order).toEqual([3, 4])
  limiter.release()
  limiter.release()
  expect(limiter.acquire({ onTimeout })).toBe(null)
})

test('a queue that is full turns away', () => {
  const { limiter } = open(1, 1)
  void limiter.acquire({ onTimeout })
  void limiter.acquire({ onTimeout })
  expect(() => limiter.acquire({ onTimeout })).toThrow(
    expect.objectContaining({ code: 'QUEUE_FULL', outcome: 'not_applied' }),
  )
})

test('a call that waits too long, or is aborted, leaves the queue and takes no place', async () => {
  const { limiter, clock } = open(1, 10)
  void limiter.acquire({ onTimeout })
  const slow = expect(
    limiter.acquire({ deadline: { leftMs: 1_000, timeoutMs: 1_000 }, onTimeout })?.promise,
  ).rejects.toThrow('late')
  await clock.advance(999)
  expect(limiter.queued).toBe(1)
  await clock.advance(1)
  await slow
  const controller = new AbortController()
  const reason = new Error('changed my mind')
  const waiting = limiter.acquire({ onTimeout, signal: controller.signal })?.promise
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  expect(() => limiter.acquire({ onTimeout, signal: AbortSignal.abort(reason) })).toThrow(reason)
  limiter.release()
  expect(limiter.acquire({ onTimeout })).toBe(null)
  expect(limiter.acquire({ onTimeout })).not.toBe(null)
  expect(clock.pending).toBe(0)
})

test.each([null, false, 0, ''])('an abort with %j rejects with just that', async (reason) => {
  const { limiter } = open(1, 10)
  void limiter.acquire({ onTimeout })
  const controller = new AbortController()
  const waiting = limiter.acquire({ onTimeout, signal: controller.signal })?.promise
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
})

test('closing at once turns away those that queue, as not applied', async () => {
  const { limiter, lifetime } = open(1, 10)
  void limiter.acquire({ onTimeout })
  const waiting = limiter.acquire({ onTimeout })?.promise
  await lifetime.close(0)
  await expect(waiting).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
  expect(() => limiter.acquire({ onTimeout })).toThrow('the client is closed')
})
