import type { Clock } from '../src/base/clock.ts'

/** Time that passes when the test says so. */
export class ManualClock implements Clock {
  #now = 1_700_000_000_000
  readonly #timers = new Set<{ readonly at: number; readonly callback: () => void }>()

  now(): number {
    return this.#now
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#now + ms, callback }
    if (ms !== Infinity) this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Timers that wait. */
  get pending(): number {
    return this.#timers.size
  }

  /** Lets time pass, timer by timer, and what they set off with it. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      await settle()
      const [next] = [...this.#timers].filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at)
      if (!next) break
      this.#now = Math.max(this.#now, next.at)
      this.#timers.delete(next)
      next.callback()
    }
    this.#now = end
    await settle()
  }
}

/** Lets promises that are settled be heard of. */
export const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
