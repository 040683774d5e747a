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
      const due = [...this.#timers].filter(({ at }) => at <= end).sort((one, other) => one.at - other.at)[0]
      if (due === undefined) break
      this.#timers.delete(due)
      this.#now = due.at
      due.callback()
    }
    this.#now = end
  }
}
