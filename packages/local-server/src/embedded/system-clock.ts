import type { Clock } from './write-queue.ts'

/** The real time. Its timers keep no process alive. */
export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs).unref()
    return () => clearTimeout(timer)
  },
}
