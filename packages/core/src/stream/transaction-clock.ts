import type { Clock } from '../clock.ts'
import { EXPIRING_AT, TRANSACTION_WINDOW_MS } from '../limits.ts'

/** What a transaction's clock calls, each only while no request is under way. */
export interface Alarms {
  /** Four fifths of its time are over. */
  warn(remainingMs: number): void
  /** All of it is over. */
  expire(): void
}

/** Time of one transaction: since it began, and since it has held the write lock. */
export class TransactionClock {
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #alarms: Alarms
  readonly #begunAt: number
  /** When the answer came to the request that got the write lock; time in the queue before it does not count. */
  #lockedSince: number | null = null
  /** Since when no request is under way; null while one is. */
  idleSince: number | null = null
  #isWarned = false
  /** Cancels the timer; null when none is set. One stays while requests come and go. */
  #cancelTimer: (() => void) | null = null

  /** @param timeoutMs Infinity = no end, only a warning before others may take the lock */
  constructor(clock: Clock, timeoutMs: number, alarms: Alarms) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#alarms = alarms
    this.#begunAt = clock.now()
  }

  get elapsedMs(): number {
    return Math.round(this.#clock.now() - this.#begunAt)
  }

  /** When a writer that waits may take the lock over, in ms since the epoch; null before the lock was got. */
  get expiresAt(): number | null {
    return this.#lockedSince && this.#lockedSince + TRANSACTION_WINDOW_MS
  }

  /** Time in which nobody takes the transaction away, in ms. */
  get #window(): number {
    return Math.min(this.#timeoutMs, TRANSACTION_WINDOW_MS)
  }

  /** A request leaves: while it is under way nothing times out. */
  pause(): void {
    this.idleSince = null
  }

  /** The transaction is over: nothing times out any more. */
  stop(): void {
    this.pause()
    this.#cancelTimer?.()
    this.#cancelTimer = null
  }

  /** An answer came. A statement that follows at once comes before the timer, however late it is. */
  resume(gotLock: boolean): void {
    this.idleSince = this.#clock.now()
    if (gotLock) this.#lockedSince ??= Math.floor(this.#clock.now())
    this.#arm()
  }

  #arm(): void {
    const since = this.#lockedSince
    if (since === null || this.#cancelTimer || this.idleSince === null) return
    if (!this.#isWarned) this.#wakeAt(since + this.#window * EXPIRING_AT, () => this.#warn(since))
    else if (this.#timeoutMs !== Infinity) this.#wakeAt(since + this.#timeoutMs, () => this.#alarms.expire())
  }

  #warn(since: number): void {
    this.#isWarned = true
    this.#alarms.warn(Math.max(0, since + this.#window - this.#clock.now()))
    // unless whoever was told has ended it
    this.#arm()
  }

  #wakeAt(time: number, callback: () => void): void {
    this.#cancelTimer = this.#clock.after(Math.max(0, time - this.#clock.now()), () => {
      this.#cancelTimer = null
      if (this.idleSince !== null) callback()
    })
  }
}
