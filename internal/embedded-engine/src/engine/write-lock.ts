/** A connection that can hold the write lock. */
export interface Writer {
  /** Whether a request of the writer is being executed, in which case it keeps the lock. */
  readonly isRunning: boolean
  /** Called when the writer is preempted. Must roll back its transaction, and not release the lock. */
  onPreempted(): void
}

/** How long a writer may hold the lock while another waits. */
const MAX_HOLD_MS = 5_000

interface Waiter {
  readonly writer: Writer
  readonly grant: () => void
  readonly reject: (reason: Error) => void
}

/**
 * The write lock of a database. Writers acquire it in the order of their arrival. A holder keeps it while no other writer waits, or a
 * request of its own is being executed; otherwise it is preempted 5 seconds after it acquired the lock.
 */
export class WriteLock {
  readonly #waiting: Waiter[] = []
  #holder: Writer | null = null
  #heldSince = 0
  #timer: NodeJS.Timeout | null = null

  isHeldBy(writer: Writer): boolean {
    return this.#holder === writer
  }

  /** Acquires the lock. Returns null if it did not have to wait. Rejects if the wait is canceled. */
  acquire(writer: Writer): Promise<void> | null {
    if (this.#holder === writer) return null
    if (this.#holder === null) {
      this.#grantTo(writer)
      return null
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ writer, grant: resolve, reject })
      this.#startTimer()
    })
  }

  /** Removes a waiting writer from the queue; its `acquire` rejects. */
  cancel(writer: Writer, reason: Error): void {
    const index = this.#waiting.findIndex((waiter) => waiter.writer === writer)
    if (index >= 0) this.#waiting.splice(index, 1)[0]?.reject(reason)
  }

  release(writer: Writer): void {
    if (this.#holder === writer) this.#handOver()
  }

  /** Called when a writer is no longer running: if it has the lock and others wait, it can be preempted from now on. */
  onRequestEnd(writer: Writer): void {
    if (this.#holder === writer && this.#waiting.length > 0) this.#startTimer()
  }

  #grantTo(writer: Writer): void {
    this.#holder = writer
    this.#heldSince = performance.now()
  }

  #handOver(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#holder = null
    const next = this.#waiting.shift()
    if (next === undefined) return
    this.#grantTo(next.writer)
    next.grant()
    if (this.#waiting.length > 0) this.#startTimer()
  }

  #startTimer(): void {
    if (this.#timer !== null) return
    const remaining = this.#heldSince + MAX_HOLD_MS - performance.now()
    this.#timer = setTimeout(() => {
      this.#timer = null
      const holder = this.#holder
      // a holder with a running request is preempted when the request ends
      if (holder === null || holder.isRunning || this.#waiting.length === 0) return
      holder.onPreempted()
      this.#handOver()
    }, remaining).unref()
  }
}
