/** Where time comes from, so that tests need not wait for it to pass. */
export interface Clock {
  /** Milliseconds since the epoch. Never goes back. */
  now(): number
  /** Calls back after a time, or never when that is Infinity. @returns what cancels it */
  after(ms: number, callback: () => void): () => void
}

export const systemClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  after(ms, callback) {
    const timer = ms === Infinity ? undefined : setTimeout(callback, Math.max(0, ms))
    return () => clearTimeout(timer)
  },
}
