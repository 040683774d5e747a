import { expect, test } from 'vitest'
import { nextCallNumber, SharedCallState } from './shared-call-state.ts'

test('a call that has begun stays marked as begun, regardless of later calls', () => {
  const server = new SharedCallState()
  const worker = new SharedCallState(server.memory)
  expect(server.hasBegun(1)).toBe(false)
  for (let call = 1; call <= 5_000; call += 1) worker.begin(call)
  expect([1, 2, 3_976, 5_000, 5_001].map((call) => server.hasBegun(call))).toEqual([
    true,
    true,
    true,
    true,
    false,
  ])
})

test('the greatest number of a call is followed by 1, also for calls that have begun', () => {
  const greatest = 2 ** 31 - 1
  expect([0, 1, greatest - 1, greatest].map(nextCallNumber)).toEqual([1, 2, greatest, 1])
  const calls = [greatest - 1, greatest, 1, 2]
  const state = new SharedCallState()
  const begun = calls.map((last) => {
    state.begin(last)
    return calls.filter((call) => state.hasBegun(call))
  })
  expect(begun).toEqual(calls.map((_, index) => calls.slice(0, index + 1)))
})

test('a call that is interrupted after its client has disconnected stays abandoned', () => {
  const state = new SharedCallState()
  state.abandon(2)
  state.interrupt(2)
  expect(state.isAbandoned(2)).toBe(true)
})

test('interrupts only the specified call, unless the worker is about to exit', () => {
  const state = new SharedCallState()
  state.interrupt(2)
  state.current = 1
  expect(state.isInterrupted).toBe(false)
  state.current = 2
  expect(state.isInterrupted).toBe(true)
  state.current = 1
  state.shutDown()
  expect([state.isInterrupted, state.isShuttingDown]).toEqual([true, true])
  state.current = 0
  expect(state.isInterrupted).toBe(false)
})
