import type { StoredTexts } from './wire-request.ts'

/** A stream as shown in the inspector. */
export interface SeenStream {
  /** Its number in the inspector. */
  readonly number: number
  readonly stored: StoredTexts
}

/** Maximum number of batons kept, more than the number of open streams. */
const MAX_BATONS = 512

/** Assigns requests to streams by their batons, which are never shown. */
export class WireStreams {
  readonly #byBaton = new Map<string, SeenStream>()
  #last = 0

  /** Returns the stream of a request. It is a new one if the request has no baton, or one from before a page was opened. */
  take(baton: string | null): SeenStream {
    const known = baton === null ? undefined : this.#byBaton.get(baton)
    if (baton !== null) this.#byBaton.delete(baton)
    if (known !== undefined) return known
    this.#last += 1
    return { number: this.#last, stored: new Map() }
  }

  /** Records the baton that continues a stream. */
  keep(baton: string, stream: SeenStream): void {
    this.#byBaton.set(baton, stream)
    if (this.#byBaton.size <= MAX_BATONS) return
    const [oldest] = this.#byBaton.keys()
    if (oldest !== undefined) this.#byBaton.delete(oldest)
  }
}
