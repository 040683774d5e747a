import type { StoredTexts } from './wire-request.ts'

export interface WireStream {
  readonly number: number
  readonly stored: StoredTexts
}

/** Maximum number of batons kept, more than the number of open streams. */
const MAX_BATONS = 512

/** Assigns requests to streams by their batons, which are never shown. */
export class WireStreams {
  readonly #byBaton = new Map<string, WireStream>()
  #lastNumber = 0

  /** Returns the stream of a request: a new one if it has no baton, or a baton from before a page was opened. */
  take(baton: string | null): WireStream {
    const existing = baton === null ? undefined : this.#byBaton.get(baton)
    if (baton !== null) this.#byBaton.delete(baton)
    if (existing !== undefined) return existing
    this.#lastNumber += 1
    return { number: this.#lastNumber, stored: new Map() }
  }

  /** Records the baton that continues a stream. */
  add(baton: string, stream: WireStream): void {
    this.#byBaton.set(baton, stream)
    if (this.#byBaton.size <= MAX_BATONS) return
    const [oldest] = this.#byBaton.keys()
    if (oldest !== undefined) this.#byBaton.delete(oldest)
  }
}
