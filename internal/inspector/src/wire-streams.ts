import type { StoredTexts } from './wire-request.ts'

/** A stream as shown in the inspector. */
export interface SeenStream {
  /** Its number in the inspector. */
  readonly number: number
  readonly stored: StoredTexts
}

/** Maximum number of remembered batons, more than open streams. */
const MAX_BATONS = 512

/** Assigns requests to streams. Remembers batons, which are never shown. */
export class WireStreams {
  readonly #byBaton = new Map<string, SeenStream>()
  #last = 0

  /** Returns the stream of a request: a new one if it has no baton, or one issued before a page was open. */
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
