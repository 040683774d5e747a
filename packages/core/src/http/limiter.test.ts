import { expect, test } from 'vitest'
import { ManualClock } from '../../test-support/manual-clock.ts'
import { Lifetime } from './lifetime.ts'
import { Limiter } from './limiter.ts'

const onTimeout = (): Error => new Error('late')
const createLimiter = (limit: number, queueLimit: number) => {
  const clock = new ManualClock()
  const lifetime = new Lifetime(clock, 'http://x')
  return { clock, lifetime, limiter: new Limiter(lifetime, limit, queueLimit) }
}

test('admits as many calls as it has permits, then the others in order of arrival', async () => {
  const { limiter } = createLimiter(2, 10)
  const first = limiter.acquire({ onTimeout })
  const second = limiter.acquire({ onTimeout })
  expect([first.waiter, second.waiter]).toEqual([null, null])
  const order: number[] = []
  const third = limiter.acquire({ onTimeout })
  const fourth = limiter.acquire({ onTimeout })
  const waits = [
    third.waiter?.promise.then(() => order.push(3)),
    fourth.waiter?.promise.then(() => order.push(4)),
  ]
  expect(limiter.queued).toBe(2)
  second.release()
  await waits[0]
  expect(order).toEqual([3])
  first.release()
  await waits[1]
  expect(order).toEqual([3, 4])
  fourth.release()
  third.release()
  expect(limiter.used).toBe(0)
  expect(limiter.acquire({ onTimeout }).waiter).toBe(null)
})

test('releasing a permit that is still awaited ends the wait and frees no other permit', async () => {
  const { limiter } = createLimiter(1, 10)
  const first = limiter.acquire({ onTimeout })
  const second = limiter.acquire({ onTimeout })
  const waiting = expect(second.waiter?.promise).rejects.toBe(undefined)
  second.release()
  await waiting
  expect([limiter.queued, limiter.used]).toEqual([0, 1])
  first.release()
  expect(limiter.used).toBe(0)
})

test('a full queue rejects', () => {
  const { limiter } = createLimiter(1, 1)
  void limiter.acquire({ onTimeout })
  void limiter.acquire({ onTimeout })
  expect(() => limiter.acquire({ onTimeout })).toThrow(
    expect.objectContaining({ code: 'QUEUE_FULL', outcome: 'not_applied' }),
  )
})

test('a call that waits too long, or is aborted, leaves the queue and acquires no permit', async () => {
  const { limiter, clock } = createLimiter(1, 10)
  const first = limiter.acquire({ onTimeout })
  const slow = expect(
    limiter.acquire({ deadline: { remainingMs: 1_000, timeoutMs: 1_000 }, onTimeout }).waiter?.promise,
  ).rejects.toThrow('late')
  await clock.advance(999)
  expect(limiter.queued).toBe(1)
  await clock.advance(1)
  await slow
  const controller = new AbortController()
  const reason = new Error('changed my mind')
  const waiting = limiter.acquire({ onTimeout, signal: controller.signal }).waiter?.promise
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  expect(() => limiter.acquire({ onTimeout, signal: AbortSignal.abort(reason) })).toThrow(reason)
  first.release()
  expect(limiter.acquire({ onTimeout }).waiter).toBe(null)
  expect(limiter.acquire({ onTimeout }).waiter).not.toBe(null)
  expect(clock.pending).toBe(0)
})

test.each([null, false, 0, ''])('an abort with %j rejects with exactly that value', async (reason) => {
  const { limiter } = createLimiter(1, 10)
  void limiter.acquire({ onTimeout })
  const controller = new AbortController()
  const waiting = limiter.acquire({ onTimeout, signal: controller.signal }).waiter?.promise
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
})

test('closing at once rejects queued calls as not applied', async () => {
  const { limiter, lifetime } = createLimiter(1, 10)
  void limiter.acquire({ onTimeout })
  const waiting = limiter.acquire({ onTimeout }).waiter?.promise
  await lifetime.close(0)
  await expect(waiting).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
  expect(() => limiter.acquire({ onTimeout })).toThrow('the client is closed')
})
