import { expect, test } from 'vitest'
import { systemClock } from './clock.ts'
import { Deferred } from './deferred.ts'

test('only the first settlement has an effect, and `onEnd` is called once', async () => {
  let ends = 0
  const countEnd = (): void => {
    ends += 1
  }
  const resolved = new Deferred<number>(systemClock, { onEnd: countEnd })
  resolved.resolve(1)
  resolved.reject(new Error('ignored'))
  resolved.resolve(2)
  expect([await resolved.promise, resolved.isSettled, resolved.isResolved, ends]).toEqual([1, true, true, 1])
  const controller = new AbortController()
  const aborted = new Deferred<number>(systemClock, { signal: controller.signal, onEnd: countEnd })
  controller.abort(new Error('the reason'))
  aborted.resolve(1)
  await expect(aborted.promise).rejects.toThrow('the reason')
  expect([aborted.isSettled, aborted.isResolved, ends]).toEqual([true, false, 2])
})
