import type { CommandContext } from './command-context.ts'

/** Shortest time between two updates of the line, in ms. */
const INTERVAL_MS = 100
/** Time after which the remaining time can be estimated, in ms. */
const ESTIMATE_AFTER_MS = 1_000

/** Shows the progress of a command in one line of a terminal. */
export class Progress {
  readonly #stderr: CommandContext['stderr']
  readonly #startedAt = performance.now()
  #lastText = ''
  /** Length of the line on the terminal, which a shorter one must overwrite. */
  #shownLength = 0
  #shownAt = 0

  constructor(stderr: CommandContext['stderr']) {
    this.#stderr = stderr
  }

  /** Shows a state. @param fraction how much of the work is done, from 0 to 1, if that is known */
  show(text: string, fraction?: number): void {
    const now = performance.now()
    this.#lastText = fraction === undefined ? text : `${text}, ${describe(fraction, now - this.#startedAt)}`
    if (now - this.#shownAt < INTERVAL_MS) return
    this.#shownAt = now
    this.#draw()
  }

  /** Shows the last state permanently. */
  end(): void {
    if (this.#lastText === '') return
    this.#draw()
    if (this.#stderr.isTTY) this.#stderr.write('\n')
    this.#lastText = ''
  }

  #draw(): void {
    if (this.#stderr.isTTY) this.#stderr.write(`\r${this.#lastText.padEnd(this.#shownLength)}`)
    this.#shownLength = this.#lastText.length
  }
}

/** Returns the percentage, and the remaining time if the work so far allows an estimate. */
function describe(fraction: number, elapsedMs: number): string {
  const percentage = `${Math.floor(Math.min(1, fraction) * 100)} %`
  if (elapsedMs < ESTIMATE_AFTER_MS || fraction <= 0 || fraction >= 1) return percentage
  const seconds = Math.ceil((elapsedMs / fraction - elapsedMs) / 1_000)
  return `${percentage}, ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')} left`
}
