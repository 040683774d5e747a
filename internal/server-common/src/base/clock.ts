/** A clock that tests can replace. */
export interface Clock {
  /** Returns the time in whole ms since the Unix epoch. It never decreases. */
  now(): number
  /** Calls back after a delay. @returns a function that cancels the call */
  after(delayMs: number, callback: () => void): () => void
}

/**
 * The clock of this process. Its timers do not keep the process alive. It is set only when the process starts: if it followed the
 * system clock, waits would end early, or last for hours, after that was changed.
 */
export const SYSTEM_CLOCK: Clock = {
  now: () => Math.floor(performance.timeOrigin + performance.now()),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs).unref()
    return () => clearTimeout(timer)
  },
}
