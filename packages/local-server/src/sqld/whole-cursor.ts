import type { Readable } from 'node:stream'

/**
 * The response of a cursor that may write. When its client does not read on it is read to its end all the same: cut off, the
 * server would run the steps that are left at a time that is not known.
 */
export class WholeCursor {
  readonly #answer: Readable
  readonly #onCut: () => void
  #isRead = false

  /** @param onCut called when the response has no end: the server may still run what is left */
  constructor(answer: Readable, onCut: () => void) {
    this.#answer = answer
    this.#onCut = onCut
  }

  async *read(): AsyncGenerator<Buffer> {
    this.#isRead = true
    const chunks = (this.#answer as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
    let next: IteratorResult<Buffer> | null = null
    try {
      for (next = await chunks.next(); next.done !== true; next = await chunks.next()) yield next.value
    } finally {
      try {
        while (next?.done !== true) next = await chunks.next()
      } catch {
        // cut off by now
      }
      if (!this.#answer.readableEnded) this.#onCut()
    }
  }

  /** To be called when the client reads no more. */
  close(): void {
    if (this.#isRead) return
    this.#onCut()
    this.#answer.destroy()
  }
}
