import type { Clock } from './base/clock.ts'

/** A clock that only advances when a test says so. */
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

  /** Advances the time, and runs the timers that are due in their order. */
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
