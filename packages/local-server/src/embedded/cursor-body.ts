import { PassThrough, type Readable } from 'node:stream'
import type { CursorListener, RunningCursor } from './database-worker.ts'

/** A body whose text comes from a worker as fast as the client takes it, behind what `head` gives when it begins. */
export class CursorBodyStream implements CursorListener {
  readonly #stream = new PassThrough()
  readonly #head: () => string
  #markBegun: () => void = () => {}
  /** Resolves once the worker has found the request acceptable. */
  readonly begun: Promise<void>
  /** The call whose text it takes. */
  source: RunningCursor | null = null

  constructor(head: () => string) {
    this.#head = head
    this.begun = new Promise((resolve) => {
      this.#markBegun = resolve
    })
    this.#stream.on('error', () => {}) // broken off on purpose
    // a body may be given up without a connection that could be cut
    this.#stream.once('close', () => this.source?.abandon())
  }

  get stream(): Readable {
    return this.#stream
  }

  begin(): void {
    this.#stream.write(this.#head())
    this.#markBegun()
  }

  lines(text: string): void {
    if (this.#stream.destroyed) return
    if (this.#stream.write(text)) this.source?.readOn()
    else this.#stream.once('drain', () => this.source?.readOn())
  }

  end(): void {
    this.#stream.end()
  }

  /** Cuts the connection: the only way to say that the rest will not come. */
  breakOff(): void {
    this.#stream.destroy(new Error('the engine has failed'))
  }
}
