import type { Clock } from './clock.ts'

/** The time limit of one call, for all of its waits and requests together. */
export class Deadline {
  readonly timeoutMs: number
  readonly #clock: Clock
  /** When it passes, in ms since the epoch. */
  endsAt: number

  constructor(clock: Clock, timeoutMs: number) {
    this.timeoutMs = timeoutMs
    this.#clock = clock
    this.endsAt = clock.now() + timeoutMs
  }

  /** Remaining time in ms; 0 or less after it has passed. */
  get leftMs(): number {
    return this.endsAt - this.#clock.now()
  }

  /** Restarts it, for a call whose previous wait does not count. */
  restart(): void {
    this.endsAt = this.#clock.now() + this.timeoutMs
  }
}
