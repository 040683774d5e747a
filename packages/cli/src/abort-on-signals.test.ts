import { expect, onTestFinished, test, vi } from 'vitest'
import { abortOnSignals } from './abort-on-signals.ts'
import { InterruptedError } from './command-context.ts'

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/** Removes the listeners that are added during a test. */
function removeListenersAfterwards(): void {
  const before = SIGNALS.map((name) => process.listeners(name))
  onTestFinished(() => {
    for (const [index, name] of SIGNALS.entries())
      for (const listener of process.listeners(name))
        if (!before[index]?.includes(listener)) process.off(name, listener)
  })
}

test.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)(
  'the first %s aborts the command, the second leaves it its clean-up, the third ends the process',
  (signal, code) => {
    removeListenersAfterwards()
    const listeners = process.listenerCount(signal)
    const controller = new AbortController()
    const end = vi.fn<(signal: string) => void>()
    abortOnSignals(controller, end)
    const counts = [1, 2, 3].map(() => {
      process.emit(signal, signal)
      // without a listener, the next signal would end the process at once
      expect(process.listenerCount(signal)).toBe(listeners + 1)
      expect(controller.signal.reason).toMatchObject({ exitCode: code })
      return end.mock.calls.length
    })
    expect(controller.signal.reason).toBeInstanceOf(InterruptedError)
    expect(counts).toEqual([0, 0, 1])
    expect(end).toHaveBeenCalledWith(signal)
  },
)
