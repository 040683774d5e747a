import { ApiError } from '../api-error.ts'

/** Limits the total size of the dumps that are being received or stored. */
export class DumpBudget {
  readonly #maxBytes: number
  #usedBytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Takes bytes, or returns them if the number is negative. @throws ApiError 503 if the limit would be exceeded */
  take(bytes: number): void {
    if (bytes > 0 && this.#usedBytes + bytes > this.#maxBytes)
      throw new ApiError(503, 'too many dumps are being received or are waiting to be used; try again later')
    this.#usedBytes += bytes
  }
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
    this.#budget.take(bytes - this.#bytes)
    this.#bytes = bytes
  }

  /** Returns all bytes to the budget. The share can no longer be used; releasing it again has no effect. */
  release(): void {
    if (this.#isReleased) return
    this.resize(0)
    this.#isReleased = true
  }
}
