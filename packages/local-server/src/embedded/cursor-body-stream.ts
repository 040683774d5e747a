import { PassThrough, type Readable } from 'node:stream'
import { type CursorListener, type JsonText, type RunningCursor, toBytes } from '@batonsql/embedded-engine'

/** A response body that consists of the text from `head` and the text from a worker, which is read no faster than it is consumed. */
export class CursorBodyStream implements CursorListener {
  readonly #stream = new PassThrough()
  readonly #head: () => string
  #markBegun: () => void = () => {}
  /** Resolves when the worker has accepted the request. */
  readonly begun: Promise<void>
  /** The call that produces the text. */
  source: RunningCursor | null = null

  constructor(head: () => string) {
    this.#head = head
    this.begun = new Promise((resolve) => {
      this.#markBegun = resolve
    })
    this.#stream.on('error', () => {}) // `abort` causes it
    // the body of a `createHandler` may be canceled without a connection that is closed
    this.#stream.once('close', () => this.source?.abandon())
  }

  get stream(): Readable {
    return this.#stream
  }

  onBegin(): void {
    this.#stream.write(this.#head())
    this.#markBegun()
  }

  onLines(text: JsonText): void {
    if (this.#stream.destroyed) return
    for (const bytes of toBytes(text)) this.#stream.write(bytes)
    if (!this.#stream.writableNeedDrain) this.source?.readMore()
    else this.#stream.once('drain', () => this.source?.readMore())
  }

  end(): void {
    this.#stream.end()
  }

  /** Aborts the connection, which is the only way to report that the response is incomplete. */
  abort(reason: string): void {
    this.#stream.destroy(new Error(reason))
  }
}
