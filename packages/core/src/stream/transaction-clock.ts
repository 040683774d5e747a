import { EXPIRING_AT, TRANSACTION_WINDOW_MS } from '../limits.ts'

/** What a transaction's clock calls, each only while no request is under way. */
export interface Alarms {
  /** Four fifths of its time are over. */
  warn(remainingMs: number): void
  /** All of it is over. */
  expire(): void
}

/** Time of one transaction: since it began, and since it has held the write slot. */
export class TransactionClock {
  readonly #timeoutMs: number
  readonly #alarms: Alarms
  readonly #begunAt = Date.now()
  /** When the answer came to the request that got the write slot; time in the queue before it does not count. */
  #slotSince: number | null = null
  #isWarned = false
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @param timeoutMs Infinity = no end, only a warning before others may take the slot */
  constructor(timeoutMs: number, alarms: Alarms) {
    this.#timeoutMs = timeoutMs
    this.#alarms = alarms
  }

  get elapsedMs(): number {
    return Date.now() - this.#begunAt
  }

  /** When a writer that waits may take the slot over, in ms since the epoch; null before the slot was got. */
  get expiresAt(): number | null {
    return this.#slotSince && this.#slotSince + TRANSACTION_WINDOW_MS
  }

  /** Time in which nobody takes the transaction away, in ms. */
  get #window(): number {
    return Math.min(this.#timeoutMs, TRANSACTION_WINDOW_MS)
  }

  /** A request leaves: while it is under way nothing times out. */
  pause(): void {
    clearTimeout(this.#timer)
  }

  /** An answer came. A statement that follows at once comes before the timer, however late it is. */
  resume(hasSlot: boolean): void {
    if (hasSlot) this.#slotSince ??= Date.now()
    if (this.#slotSince === null) return
    const slotSince = this.#slotSince
    if (!this.#isWarned) this.#wakeAt(slotSince + this.#window * EXPIRING_AT, () => this.#warn(slotSince))
    else if (this.#timeoutMs !== Infinity)
      this.#wakeAt(this.#slotSince + this.#timeoutMs, () => this.#alarms.expire())
  }

  #warn(slotSince: number): void {
    this.#isWarned = true
    this.#alarms.warn(Math.max(0, slotSince + this.#window - Date.now()))
    this.resume(true)
  }

  #wakeAt(time: number, callback: () => void): void {
    this.#timer = setTimeout(callback, Math.max(0, time - Date.now()))
  }
}
