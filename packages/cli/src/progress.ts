import type { CommandContext } from './command-context.ts'

/** Update interval, in ms. */
const INTERVAL_MS = 100

/** Shows the progress of a command in one line of a terminal. */
export class Progress {
  readonly #errors: CommandContext['errors']
  #lastText = ''
  #shownAt = 0

  constructor(errors: CommandContext['errors']) {
    this.#errors = errors
  }

  show(text: string): void {
    this.#lastText = text
    const now = performance.now()
    if (now - this.#shownAt < INTERVAL_MS) return
    this.#shownAt = now
    this.#draw()
  }

  /** Shows the last state permanently. */
  end(): void {
    if (this.#lastText === '') return
    this.#draw()
    if (this.#errors.isTTY) this.#errors.write('\n')
  }

  #draw(): void {
    if (this.#errors.isTTY) this.#errors.write(`\r${this.#lastText}`)
  }
}
