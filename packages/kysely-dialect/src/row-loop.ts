/**
 * A loop over the rows of `stream()`. While its body runs, no more rows are requested: if a query that waits for the same connection is
 * awaited there, each waits for the other.
 */
export class RowLoop {
  readonly #timeoutMs: number
  readonly #waiters = new Set<() => void>()
  #isBodyRunning = false
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @param timeoutMs how long a query waits while the body of the loop runs */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** Calls `onTimeout` once the body has run for too long. @returns a function that cancels this */
  limitWait(onTimeout: () => void): () => void {
    this.#waiters.add(onTimeout)
    if (this.#isBodyRunning) this.#startTimer()
    return () => this.#waiters.delete(onTimeout)
  }

  /** Called before the loop receives rows. */
  startBody(): void {
    this.#isBodyRunning = true
    if (this.#waiters.size > 0) this.#startTimer()
  }

  /** Called when the loop asks for rows, or has ended. */
  endBody(): void {
    this.#isBodyRunning = false
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #startTimer(): void {
    if (this.#timeoutMs === Infinity) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      for (const onTimeout of this.#waiters) onTimeout()
    }, this.#timeoutMs)
  }
}
