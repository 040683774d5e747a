import { expect, test, vi } from 'vitest'
import { createBackend, openControlPlane } from '../test-support/control-plane.ts'

test('records usage every 15 s, also after it could not be recorded', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const reported = vi.spyOn(console, 'error').mockImplementation(() => {})
  const plane = await openControlPlane()
  await plane.start(createBackend())
  const sample = vi.spyOn(plane.usage, 'sampleTouched').mockRejectedValueOnce(new Error('disk full'))
  for (const count of [1, 2, 3]) {
    vi.advanceTimersByTime(15_000)
    expect(sample).toHaveBeenCalledTimes(count)
    // the sample has ended
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(reported).toHaveBeenCalledExactlyOnceWith('usage could not be recorded: Error: disk full')
  await plane.stop()
  vi.advanceTimersByTime(15_000)
  expect(sample).toHaveBeenCalledTimes(4)
})

test('closing reports calls that are still running after 5 s', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const reported = vi.spyOn(console, 'error').mockImplementation(() => {})
  const plane = await openControlPlane()
  const { promise, resolve } = Promise.withResolvers<void>()
  const call = plane.track(promise)
  const closed = plane.close()
  vi.advanceTimersByTime(5_000)
  await closed
  expect(reported.mock.calls).toEqual([
    ['the server was closed after 5 s, while calls were still running: 1'],
  ])
  resolve()
  await call
})
