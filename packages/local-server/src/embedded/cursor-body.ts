import { PassThrough, type Readable } from 'node:stream'
import type { CursorListener } from './engine-host.ts'

/** The body of a cursor's answer: the first line, then what the host sends, as fast as the client takes it. */
export class CursorBodyStream implements CursorListener {
  readonly #stream = new PassThrough()
  readonly #firstLine: () => string
  #markBegun: () => void = () => {}
  /** Resolves once the host has found the batch acceptable. */
  readonly begun: Promise<void>
  /** Asks the host for more. */
  readOn: () => void = () => {}

  constructor(firstLine: () => string) {
    this.#firstLine = firstLine
    this.begun = new Promise((resolve) => {
      this.#markBegun = resolve
    })
    this.#stream.on('error', () => {}) // broken off on purpose
  }

  get stream(): Readable {
    return this.#stream
  }

  begin(): void {
    this.#stream.write(`${this.#firstLine()}\n`)
    this.#markBegun()
  }

  lines(text: string): void {
    if (this.#stream.destroyed) return
    if (this.#stream.write(text)) this.readOn()
    else this.#stream.once('drain', () => this.readOn())
  }

  end(): void {
    this.#stream.end()
  }

  /** Cuts the connection: the only way to say that the rest will not come. */
  breakOff(): void {
    this.#stream.destroy(new Error('the cursor has failed'))
  }
}
