import type { Readable } from 'node:stream'

/**
 * The response of a cursor that may write. It is read to its end even if the client leaves: if the connection were closed, the
 * server would execute the remaining steps at an unknown time.
 */
export class WholeCursor {
  readonly #response: Readable
  readonly #onCut: () => void
  #isRead = false

  /** @param onCut called if the response is truncated: the server may still execute the remaining steps */
  constructor(response: Readable, onCut: () => void) {
    this.#response = response
    this.#onCut = onCut
  }

  async *read(): AsyncGenerator<Buffer> {
    this.#isRead = true
    const chunks = (this.#response as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
    let next: IteratorResult<Buffer> | null = null
    try {
      for (next = await chunks.next(); next.done !== true; next = await chunks.next()) yield next.value
    } finally {
      try {
        while (next?.done !== true) next = await chunks.next()
      } catch {
        // truncated
      }
      if (!this.#response.readableEnded) this.#onCut()
    }
  }

  /** Called when the client no longer reads. */
  close(): void {
    if (this.#isRead) return
    this.#onCut()
    this.#response.destroy()
  }
}
