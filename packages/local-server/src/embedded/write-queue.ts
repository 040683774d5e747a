/** Time as the queue sees it; replaced in tests. */
export interface Clock {
  now(): number
  /** Calls back after a while; the result cancels. */
  after(delayMs: number, callback: () => void): () => void
}

/** Whoever can hold the write slot. */
export interface Writer {
  /** Whether a request of the writer is being worked on right now; then it is not robbed. */
  readonly isRunning: boolean
  /** Called when the slot was taken away: rolls the transaction back. */
  robbed(): void
}

/** How long a writer may hold the slot while another one waits. */
const TRANSACTION_WINDOW_MS = 5_000

/**
 * The one write slot of a database. Writers wait in the order of their arrival. A holder keeps the slot as long as
 * nobody else wants it; with somebody waiting it loses it when its 5 seconds are over, counted from the moment it
 * was given the slot.
 */
export class WriteQueue {
  readonly #clock: Clock
  readonly #waiting: { writer: Writer; grant: () => void }[] = []
  #holder: Writer | null = null
  #heldSince = 0
  #cancelTimer: (() => void) | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  isHeldBy(writer: Writer): boolean {
    return this.#holder === writer
  }

  /** Resolves when the writer has the slot, at once when it has it already or nobody does. */
  acquire(writer: Writer): Promise<void> | null {
    if (this.#holder === writer) return null
    if (this.#holder === null) {
      this.#give(writer)
      return null
    }
    return new Promise((resolve) => {
      this.#waiting.push({ writer, grant: resolve })
      this.#watch()
    })
  }

  /** Gives the slot back, or takes the writer out of the line. */
  release(writer: Writer): void {
    const place = this.#waiting.findIndex((entry) => entry.writer === writer)
    if (place >= 0) this.#waiting.splice(place, 1)
    if (this.#holder === writer) this.#next()
  }

  /** A program of the holder has ended: if its time ran out meanwhile, it is robbed now. */
  programEnded(writer: Writer): void {
    if (this.#holder === writer && this.#waiting.length > 0) this.#watch()
  }

  #give(writer: Writer): void {
    this.#holder = writer
    this.#heldSince = this.#clock.now()
  }

  #next(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = null
    this.#holder = null
    const next = this.#waiting.shift()
    if (next === undefined) return
    this.#give(next.writer)
    next.grant()
    if (this.#waiting.length > 0) this.#watch()
  }

  #watch(): void {
    if (this.#cancelTimer !== null) return
    const left = this.#heldSince + TRANSACTION_WINDOW_MS - this.#clock.now()
    this.#cancelTimer = this.#clock.after(Math.max(0, left), () => {
      this.#cancelTimer = null
      const holder = this.#holder
      // nobody waits any more, or it is looked at again when the holder's program ends
      if (holder === null || holder.isRunning || this.#waiting.length === 0) return
      holder.robbed()
      this.#next()
    })
  }
}
