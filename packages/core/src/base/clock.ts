/** Where time comes from, so that tests need not wait for it to pass. */
export interface Clock {
  /** Milliseconds since the epoch. Never goes back. */
  now(): number
  /** Calls back after a time, or never when that is Infinity. @returns what cancels it */
  after(ms: number, callback: () => void): () => void
}

const ORIGIN = performance.timeOrigin

export const systemClock: Clock = {
  now: () => ORIGIN + performance.now(),
  after(ms, callback) {
    // a timer would leave the rest of a millisecond out, and come early
    const timer = ms === Infinity ? undefined : setTimeout(callback, Math.max(0, Math.ceil(ms)))
    return () => clearTimeout(timer)
  },
}
