/** A clock that tests can replace. */
export interface Clock {
  now(): number
  /** Calls back after a delay. @returns a function that cancels the call */
  after(delayMs: number, callback: () => void): () => void
}

/** The system clock. Its timers do not keep the process alive. */
export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs).unref()
    return () => clearTimeout(timer)
  },
}
