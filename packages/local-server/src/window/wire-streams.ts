import type { StoredTexts } from './wire-request.ts'

/** A stream as the window knows it. */
export interface SeenStream {
  /** What it is called in the window. */
  readonly number: number
  readonly stored: StoredTexts
}

/** Batons that are remembered: more than there can be open streams. */
const MAX_BATONS = 512

/** Which request goes on with which stream. Keeps batons, which are never shown. */
export class WireStreams {
  readonly #byBaton = new Map<string, SeenStream>()
  #last = 0

  /** The stream that a request works on: a new one without a baton, or with one from before anybody looked. */
  take(baton: string | null): SeenStream {
    const known = baton === null ? undefined : this.#byBaton.get(baton)
    if (baton !== null) this.#byBaton.delete(baton)
    if (known !== undefined) return known
    this.#last += 1
    return { number: this.#last, stored: new Map() }
  }

  /** The stream can be continued with this baton. */
  keep(baton: string, stream: SeenStream): void {
    this.#byBaton.set(baton, stream)
    if (this.#byBaton.size <= MAX_BATONS) return
    const [oldest] = this.#byBaton.keys()
    if (oldest !== undefined) this.#byBaton.delete(oldest)
  }
}
