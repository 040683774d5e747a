import { expect, onTestFinished, test, vi } from 'vitest'
import { SYSTEM_CLOCK } from './clock.ts'

test('the clock of the process does not follow the system clock, which may be set back', () => {
  expect(Number.isInteger(SYSTEM_CLOCK.now())).toBe(true)
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  vi.setSystemTime(0)
  expect(SYSTEM_CLOCK.now()).not.toBe(0)
})
