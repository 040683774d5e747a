/** A clock that tests can replace. */
export interface Clock {
  /** Returns milliseconds since the epoch. Never decreases. */
  now(): number
  /** Calls `callback` after `ms` milliseconds; never if that is Infinity. @returns a function that cancels the call */
  after(ms: number, callback: () => void): () => void
}

const ORIGIN = performance.timeOrigin

export const systemClock: Clock = {
  now: () => ORIGIN + performance.now(),
  after(ms, callback) {
    // timers ignore fractions of a millisecond, and would fire early
    const timer = ms === Infinity ? undefined : setTimeout(callback, Math.max(0, Math.ceil(ms)))
    return () => clearTimeout(timer)
  },
}
