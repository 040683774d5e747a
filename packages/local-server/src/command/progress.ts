import type { CommandContext } from './command-context.ts'

/** How often it is shown, in ms. */
const INTERVAL_MS = 100

/** One line that says how far something is, where it is seen. */
export class Progress {
  readonly #errors: CommandContext['errors']
  #last = ''
  #shownAt = 0

  constructor(errors: CommandContext['errors']) {
    this.#errors = errors
  }

  show(text: string): void {
    this.#last = text
    const now = performance.now()
    if (now - this.#shownAt < INTERVAL_MS) return
    this.#shownAt = now
    this.#draw()
  }

  /** Leaves the last state standing. */
  end(): void {
    if (this.#last === '') return
    this.#draw()
    if (this.#errors.isTTY) this.#errors.write('\n')
  }

  #draw(): void {
    if (this.#errors.isTTY) this.#errors.write(`\r${this.#last}`)
  }
}
