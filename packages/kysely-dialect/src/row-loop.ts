/**
 * The loop over the rows of `stream()` that has a connection, if any. While its body runs, no more rows are requested: if a query that
 * waits for the same connection is awaited there, each waits for the other.
 */
export class RowLoop {
  readonly #timeoutMs: number
  /** What is called when a query has waited for too long, and its timer while the body runs. */
  readonly #waiters = new Map<() => void, ReturnType<typeof setTimeout> | undefined>()
  #isBodyRunning = false

  /** @param timeoutMs how long a query waits while the body of the loop runs */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** Calls `onTimeout` once the body has run for `timeoutMs` from now on. @returns a function that cancels this */
  limitWait(onTimeout: () => void): () => void {
    this.#waiters.set(onTimeout, undefined)
    if (this.#isBodyRunning) this.#startTimer(onTimeout)
    return () => {
      clearTimeout(this.#waiters.get(onTimeout))
      this.#waiters.delete(onTimeout)
    }
  }

  /** Called before the loop receives rows. */
  startBody(): void {
    this.#isBodyRunning = true
    for (const onTimeout of this.#waiters.keys()) this.#startTimer(onTimeout)
  }

  /** Called when the loop asks for rows, or has ended. */
  endBody(): void {
    this.#isBodyRunning = false
    for (const timer of this.#waiters.values()) clearTimeout(timer)
  }

  #startTimer(onTimeout: () => void): void {
    if (this.#timeoutMs !== Infinity) this.#waiters.set(onTimeout, setTimeout(onTimeout, this.#timeoutMs))
  }
}
