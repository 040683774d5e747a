import { ApiError } from '../api-error.ts'

/** The total size of the dumps that are being received or stored, and its limit. */
export interface DumpBudget {
  readonly maxBytes: number
  usedBytes: number
}

/** The share of one dump in a budget, initially empty. */
export class DumpShare {
  readonly #budget: DumpBudget
  #bytes = 0
  #isReleased = false

  constructor(budget: DumpBudget) {
    this.#budget = budget
  }

  /** Takes more bytes. @throws ApiError 503 if the budget is exhausted; in that case nothing is taken */
  take(bytes: number): void {
    this.resize(this.#bytes + bytes)
  }

  /** Changes the size of the share. @throws ApiError 503 as `take` does */
  resize(bytes: number): void {
    if (this.#isReleased) throw new Error('the share of the dump was released')
    const change = bytes - this.#bytes
    if (change > 0 && this.#budget.usedBytes + change > this.#budget.maxBytes)
      throw new ApiError(503, 'too many dumps are being received or are waiting to be used; try again later')
    this.#budget.usedBytes += change
    this.#bytes = bytes
  }

  /** Returns all bytes to the budget. The share can no longer be used; releasing it again has no effect. */
  release(): void {
    if (this.#isReleased) return
    this.resize(0)
    this.#isReleased = true
  }
}
