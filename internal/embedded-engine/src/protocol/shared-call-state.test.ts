import { expect, test } from 'vitest'
import { SharedCallState } from './shared-call-state.ts'

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
