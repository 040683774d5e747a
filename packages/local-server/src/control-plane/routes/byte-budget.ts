import { Refusal } from '../refusal.ts'

/** How many bytes may be held for all callers together. */
export class ByteBudget {
  readonly #max: number
  #used = 0

  constructor(maxBytes: number) {
    this.#max = maxBytes
  }

  /** What one caller holds, nothing at first. */
  share(): ByteShare {
    let held = 0
    return {
      take: (bytes) => {
        if (this.#used + bytes > this.#max)
          throw new Refusal(413, 'too many dumps are being received or wait to be used; try again later')
        this.#used += bytes
        held += bytes
      },
      release: () => {
        this.#used -= held
        held = 0
      },
    }
  }
}

/** A part of a budget. */
export interface ByteShare {
  /** @throws Refusal 413 when the budget has no room for it; nothing is taken then */
  readonly take: (bytes: number) => void
  /** Gives back all that was taken. */
  readonly release: () => void
}
