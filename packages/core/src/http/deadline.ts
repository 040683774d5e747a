import { checkOption, TIME } from '../check-options.ts'
import type { Clock } from '../clock.ts'

/** The time that one call has for all of its waits and requests together. */
export class Deadline {
  readonly timeoutMs: number
  readonly #clock: Clock
  #end: number

  /** @throws TypeError when `timeoutMs` is no time */
  constructor(clock: Clock, timeoutMs: number) {
    checkOption('timeoutMs', timeoutMs, TIME)
    this.timeoutMs = timeoutMs
    this.#clock = clock
    this.#end = clock.now() + timeoutMs
  }

  /** What is left of it in ms: 0 or less when it is over. */
  get leftMs(): number {
    return this.#end - this.#clock.now()
  }

  /** Restarts, for a call whose wait so far does not count. */
  restart(): void {
    this.#end = this.#clock.now() + this.timeoutMs
  }
}
