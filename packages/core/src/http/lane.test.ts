import { expect, test } from 'vitest'
import { ManualClock } from '../../test-support/manual-clock.ts'
import { Lane } from './lane.ts'
import { Lifetime } from './lifetime.ts'

const late = (): Error => new Error('late')
const open = (limit: number, queueLimit: number) => {
  const clock = new ManualClock()
  const lifetime = new Lifetime(clock)
  return { clock, lifetime, lane: new Lane(lifetime, limit, queueLimit) }
}

test('lets through as many as there is room for, the others in the order in which they came', async () => {
  const { lane } = open(2, 10)
  expect(lane.acquire({ late })).toBe(null)
  expect(lane.acquire({ late })).toBe(null)
  const order: number[] = []
  const third = lane.acquire({ late })?.promise.then(() => order.push(3))
  const fourth = lane.acquire({ late })?.promise.then(() => order.push(4))
  expect(lane.queued).toBe(2)
  lane.release()
  await third
  expect(order).toEqual([3])
  lane.release()
  await fourth
  expect(order).toEqual([3, 4])
  lane.release()
  lane.release()
  expect(lane.acquire({ late })).toBe(null)
})

test('a queue that is full turns away', () => {
  const { lane } = open(1, 1)
  void lane.acquire({ late })
  void lane.acquire({ late })
  expect(() => lane.acquire({ late })).toThrow(
    expect.objectContaining({ code: 'QUEUE_FULL', outcome: 'not_applied' }),
  )
})

test('a call that waits too long, or is aborted, leaves the queue and takes no place', async () => {
  const { lane, clock } = open(1, 10)
  void lane.acquire({ late })
  const slow = expect(lane.acquire({ ms: 1_000, late })?.promise).rejects.toThrow('late')
  await clock.advance(999)
  expect(lane.queued).toBe(1)
  await clock.advance(1)
  await slow
  const controller = new AbortController()
  const reason = new Error('changed my mind')
  const waiting = lane.acquire({ late, signal: controller.signal })?.promise
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  expect(() => lane.acquire({ late, signal: AbortSignal.abort(reason) })).toThrow(reason)
  lane.release()
  expect(lane.acquire({ late })).toBe(null)
  expect(lane.acquire({ late })).not.toBe(null)
  expect(clock.pending).toBe(0)
})

test.each([null, false, 0, ''])('an abort with %j rejects with just that', async (reason) => {
  const { lane } = open(1, 10)
  void lane.acquire({ late })
  const controller = new AbortController()
  const waiting = lane.acquire({ late, signal: controller.signal })?.promise
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
})

test('closing at once turns away those that queue, as not applied', async () => {
  const { lane, lifetime } = open(1, 10)
  void lane.acquire({ late })
  const waiting = lane.acquire({ late })?.promise
  await lifetime.close(0)
  await expect(waiting).rejects.toMatchObject({ code: 'CLOSED', outcome: 'not_applied' })
  expect(() => lane.acquire({ late })).toThrow('the client is closed')
})
