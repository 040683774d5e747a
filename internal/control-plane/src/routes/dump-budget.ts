import { ApiError } from '../api-error.ts'

/** Limits the total size of the dumps that are being received or stored. */
export class DumpBudget {
  readonly #max: number
  #used = 0

  constructor(maxBytes: number) {
    this.#max = maxBytes
  }

  /** Creates a share for one dump, initially empty. */
  createShare(): DumpShare {
    let heldBytes = 0
    return {
      take: (bytes) => {
        if (this.#used + bytes > this.#max)
          throw new ApiError(
            503,
            'too many dumps are being received or are waiting to be used; try again later',
          )
        this.#used += bytes
        heldBytes += bytes
      },
      release: () => {
        this.#used -= heldBytes
        heldBytes = 0
      },
    }
  }
}

/** A share of a budget. */
export interface DumpShare {
  /** Takes bytes from the budget. @throws ApiError 503 if it is exhausted; in that case nothing is taken */
  readonly take: (bytes: number) => void
  /** Returns all bytes to the budget. */
  readonly release: () => void
}
