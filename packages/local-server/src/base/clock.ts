/** Time; replaced in tests. */
export interface Clock {
  now(): number
  /** Calls back after a while; the result cancels. */
  after(delayMs: number, callback: () => void): () => void
}

/** The real time. Its timers keep no process alive. */
export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs).unref()
    return () => clearTimeout(timer)
  },
}
