import type { Clock } from '../src/base/clock.ts'

/** A clock that advances only when the test advances it. */
export class ManualClock implements Clock {
  #now = 1_700_000_000_000
  readonly #timers = new Set<{ readonly dueAt: number; readonly callback: () => void }>()

  now(): number {
    return this.#now
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { dueAt: this.#now + ms, callback }
    if (ms !== Infinity) this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Number of pending timers. */
  get pending(): number {
    return this.#timers.size
  }

  /** Advances the clock timer by timer, and waits for the effects of each. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      await settle()
      const [next] = [...this.#timers]
        .filter(({ dueAt }) => dueAt <= end)
        .toSorted((a, b) => a.dueAt - b.dueAt)
      if (!next) break
      this.#now = Math.max(this.#now, next.dueAt)
      this.#timers.delete(next)
      next.callback()
    }
    this.#now = end
    await settle()
  }
}

/** Lets the callbacks of settled promises run. */
export const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
