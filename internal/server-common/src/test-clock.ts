import type { Clock } from './base/clock.ts'

/** A clock that advances only when a test calls `advance`. */
export class TestClock implements Clock {
  #now = 0
  readonly #timers = new Set<{ at: number; callback: () => void }>()

  now(): number {
    return this.#now
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = { at: this.#now + delayMs, callback }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Advances the time and runs due timers in order. */
  advance(ms: number): void {
    const end = this.#now + ms
    for (;;) {
      const timer = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0]
      if (timer === undefined) break
      this.#timers.delete(timer)
      this.#now = timer.at
      timer.callback()
    }
    this.#now = end
  }
}
