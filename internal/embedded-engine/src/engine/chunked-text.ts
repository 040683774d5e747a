import { concat, type JsonText } from '../protocol/json-text.ts'

/** Minimum size of a chunk, unless it is the last: in bytes for rows, in characters for the text that is sent. */
export const CHUNK_SIZE = 64 * 1_024

/** Receives a chunk; resolves when the next one is requested. @throws ClientDisconnectedError */
export type TextOutput = (text: JsonText) => Promise<void>

/** Collects text, and sends it in chunks. */
export class ChunkedText {
  readonly #output: TextOutput
  #pending = ''

  constructor(output: TextOutput) {
    this.#output = output
  }

  async add(text: string): Promise<void> {
    this.#pending += text
    if (this.#pending.length >= CHUNK_SIZE) await this.flush()
  }

  /** Sends what was collected, followed by `last`. */
  async flush(last: JsonText = ''): Promise<void> {
    const chunk = concat(this.#pending, last)
    this.#pending = ''
    await this.#output(chunk)
  }
}
