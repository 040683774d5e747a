import type { CommandContext } from './command-context.ts'

/** Update interval, in ms. */
const INTERVAL_MS = 100

/** Shows the progress of a command in one line of a terminal. */
export class Progress {
  readonly #stderr: CommandContext['stderr']
  #lastText = ''
  #shownAt = 0

  constructor(stderr: CommandContext['stderr']) {
    this.#stderr = stderr
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
    if (this.#stderr.isTTY) this.#stderr.write('\n')
  }

  #draw(): void {
    if (this.#stderr.isTTY) this.#stderr.write(`\r${this.#lastText}`)
  }
}
