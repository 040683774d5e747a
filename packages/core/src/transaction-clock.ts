import { TRANSACTION_WINDOW_MS } from './limits.ts'

/** Time of one transaction: since it began, and since it has held the write slot. */
export class TransactionClock {
  readonly #timeoutMs: number
  readonly #onTimeout: () => void
  readonly #begunAt = Date.now()
  /** When the answer came to the request that got the write slot; time in the queue before it does not count. */
  #slotSince: number | null = null
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @param onTimeout called when the transaction is idle past its time; Infinity = never */
  constructor(timeoutMs: number, onTimeout: () => void) {
    this.#timeoutMs = timeoutMs
    this.#onTimeout = onTimeout
  }

  get elapsedMs(): number {
    return Date.now() - this.#begunAt
  }

  /** When a writer that waits may take the slot over, in ms since the epoch; null before the slot was got. */
  get expiresAt(): number | null {
    return this.#slotSince && this.#slotSince + TRANSACTION_WINDOW_MS
  }

  /** A request leaves: while it is under way nothing times out. */
  pause(): void {
    clearTimeout(this.#timer)
  }

  /** An answer came. A statement that follows at once comes before the timer, however late it is. */
  resume(hasSlot: boolean): void {
    if (hasSlot) this.#slotSince ??= Date.now()
    if (this.#slotSince === null || this.#timeoutMs === Infinity) return
    this.#timer = setTimeout(this.#onTimeout, Math.max(0, this.#slotSince + this.#timeoutMs - Date.now()))
  }
}
