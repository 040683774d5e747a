import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { RowLoop } from './row-loop.ts'

beforeEach(() => void vi.useFakeTimers())

const onTimeout = vi.fn()
afterEach(() => void onTimeout.mockReset())

/** Advances the clock, and returns how often a wait has been too long. */
function timeoutsAfter(ms: number): number {
  vi.advanceTimersByTime(ms)
  return onTimeout.mock.calls.length
}

test('limits only the time that the body runs, and begins again with each run', () => {
  const loop = new RowLoop(1_000)
  loop.limitWait(onTimeout)
  expect(timeoutsAfter(5_000)).toBe(0)
  loop.startBody()
  expect(timeoutsAfter(999)).toBe(0)
  loop.endBody()
  loop.limitWait(onTimeout)
  expect(timeoutsAfter(5_000)).toBe(0)
  loop.startBody()
  expect([timeoutsAfter(999), timeoutsAfter(1)]).toEqual([0, 1])
})

test('a wait that begins while the body runs has the full time', () => {
  const loop = new RowLoop(1_000)
  loop.startBody()
  for (const count of [0, 1]) {
    vi.advanceTimersByTime(500)
    const cancel = loop.limitWait(onTimeout)
    expect([timeoutsAfter(999), timeoutsAfter(1)]).toEqual([count, count + 1])
    cancel()
  }
})

test('each of several waits has the full time', () => {
  const loop = new RowLoop(1_000)
  loop.startBody()
  for (const wait of [1, 2]) {
    loop.limitWait(() => void onTimeout(wait))
    vi.advanceTimersByTime(800)
  }
  expect([timeoutsAfter(199), timeoutsAfter(1)]).toEqual([1, 2])
})

test('a wait that was canceled is not limited, nor any without a time limit', () => {
  const loop = new RowLoop(1_000)
  loop.startBody()
  loop.limitWait(onTimeout)()
  const endless = new RowLoop(Infinity)
  endless.startBody()
  endless.limitWait(onTimeout)
  expect(timeoutsAfter(1_000_000)).toBe(0)
})
