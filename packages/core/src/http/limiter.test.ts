import { expect, test } from 'vitest'
import { ManualClock } from '../../test-support/manual-clock.ts'
import { Lifetime } from './lifetime.ts'
import { Limiter } from './limiter.ts'

const late = (): Error => new Error('late')
const open = (limit: number, queueLimit: number) => {
  const clock = new ManualClock()
  const lifetime = new Lifetime(clock)
  return { clock, lifetime, limiter: new Limiter(lifetime, limit, queueLimit) }
}

test('lets through as many as there is room for, the others in the order in which they came', async () => {
  const { limiter } = open(2, 10)
  expect(limiter.acquire({ late })).toBe(null)
  expect(limiter.acquire({ late })).toBe(null)
  const order: number[] = []
  const third = limiter.acquire({ late })?.promise.then(() => order.push(3))
  const fourth = limiter.acquire({ late })?.promise.then(() => order.push(4))
  expect(limiter.queued).toBe(2)
  limiter.release()
  await third
  expect(order).toEqual([3])
  limiter.release()
  await fourth
  expect(order).toEqual([3, 4])
  limiter.release()
  limiter.release()
  expect(limiter.acquire({ late })).toBe(null)
})

test('a queue that is full turns away', () => {
  const { limiter } = open(1, 1)
  void limiter.acquire({ late })
  void limiter.acquire({ late })
  expect(() => limiter.acquire({ late })).toThrow(
    expect.objectContaining({ code: 'QUEUE_FULL', outcome: 'not_applied' }),
  )
})

test('a call that waits too long, or is aborted, leaves the queue and takes no place', async () => {
  const { limiter, clock } = open(1, 10)
  void limiter.acquire({ late })
  const slow = expect(limiter.acquire({ ms: 1_000, late })?.promise).rejects.toThrow('late')
  await clock.advance(999)
  expect(limiter.queued).toBe(1)
  await clock.advance(1)
  await slow
  const controller = new AbortController()
  const reason = new Error('changed my mind')
  const waiting = limiter.acquire({ late, signal: controller.signal })?.promise
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  expect(() => limiter.acquire({ late, signal: AbortSignal.abort(reason) })).toThrow(reason)
  limiter.release()
  expect(limiter.acquire({ late })).toBe(null)
  expect(limiter.acquire({ late })).not.toBe(null)
  expect(clock.pending).toBe(0)
})

test.each([null, false, 0, ''])('an abort with %j rejects with just that', async (reason) => {
  const { limiter } = open(1, 10)
  void limiter.acquire({ late })
  const controller = new AbortController()
  const waiting = limiter.acquire({ late, signal: controller.signal })?.promise
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
})

test('closing at once turns away those that queue, as not applied', async () => {
  const { limiter, lifetime } = open(1, 10)
  void limiter.acquire({ late })
  const waiting = limiter.acquire({ late })?.promise
  await lifetime.close(0)
  await expect(waiting).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
  expect(() => limiter.acquire({ late })).toThrow('the client is closed')
})
