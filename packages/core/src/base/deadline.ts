import type { Clock } from './clock.ts'

/** The time limit of one call, shared by all of its waits and requests. */
export class Deadline {
  readonly timeoutMs: number
  readonly #clock: Clock
  /** When the deadline passes, in ms since the epoch. */
  endsAt: number

  constructor(clock: Clock, timeoutMs: number) {
    this.timeoutMs = timeoutMs
    this.#clock = clock
    this.endsAt = clock.now() + timeoutMs
  }

  /** Remaining time in ms; 0 or less after the deadline. */
  get remainingMs(): number {
    return this.endsAt - this.#clock.now()
  }

  /** Restarts the time limit, for a call whose wait so far does not count. */
  restart(): void {
    this.endsAt = this.#clock.now() + this.timeoutMs
  }
}
