import type { Clock } from './clock.ts'

/** The time that one call has for all of its waits and requests together. */
export class Deadline {
  readonly timeoutMs: number
  readonly #clock: Clock
  /** When it is over, in ms since the epoch. */
  endsAt: number

  constructor(clock: Clock, timeoutMs: number) {
    this.timeoutMs = timeoutMs
    this.#clock = clock
    this.endsAt = clock.now() + timeoutMs
  }

  /** What is left of it in ms: 0 or less when it is over. */
  get leftMs(): number {
    return this.endsAt - this.#clock.now()
  }

  /** Restarts, for a call whose wait so far does not count. */
  restart(): void {
    this.endsAt = this.#clock.now() + this.timeoutMs
  }
}
