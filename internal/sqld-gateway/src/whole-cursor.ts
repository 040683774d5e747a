import type { Readable } from 'node:stream'

/**
 * The response of a cursor that may write. It is read to its end even if the client leaves: if the connection were closed, the
 * server would execute the remaining steps at an unknown time.
 */
export class WholeCursor {
  readonly #response: Readable
  readonly #onTruncated: () => void
  #isRead = false

  /** @param onTruncated called if the response is truncated: the server may still execute the remaining steps */
  constructor(response: Readable, onTruncated: () => void) {
    this.#response = response
    this.#onTruncated = onTruncated
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
      if (!this.#response.readableEnded) this.#onTruncated()
    }
  }

  /** Called when the client no longer reads. */
  close(): void {
    if (this.#isRead) return
    this.#onTruncated()
    this.#response.destroy()
  }
}
