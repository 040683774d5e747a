import type { WriteEffect } from '../request/write-effect.ts'
import { type RequestGate, type StreamWrites, WriteRequest } from './stream-writes.ts'

/** Interval at which idle transactions are checked while the gate is closed. */
const POLL_MS = 100

/**
 * Tracks which streams of one database may hold its write lock or wait for it, and can hold back new ones: for a checkpoint, during
 * which libsql-server may lose a waiting writer. A stream that may hold the lock always passes; otherwise it could never release it.
 */
export class WriteGate implements RequestGate {
  readonly #writers = new Set<StreamWrites>()
  readonly #onWriteEnd: () => void
  #queue: (() => void)[] = []
  #isClosed = false
  /** Wakes `withoutWriters`. */
  #onChange = (): void => {}
  /** When the last write got a response, or the first of the pending ones was sent; null if none is pending. */
  #stalledSince: number | null = null
  hasAbandoned = false

  /** @param onWriteEnd called after each request that may have written */
  constructor(onWriteEnd = (): void => {}) {
    this.#onWriteEnd = onWriteEnd
  }

  /** How long pending writes have had no response. */
  get stalledMs(): number {
    return this.#stalledSince === null ? 0 : performance.now() - this.#stalledSince
  }

  /** Streams that may hold the write lock, or wait for it at the server. */
  get writers(): readonly StreamWrites[] {
    return [...this.#writers]
  }

  /** Waits until a request may be sent. Rejects if its client disconnects meanwhile. */
  async enter(stream: StreamWrites, effect: WriteEffect, signal: AbortSignal): Promise<WriteRequest> {
    const { mayWrite } = effect
    if (mayWrite && !stream.isWriter && !stream.hasBegun && this.#isClosed) await this.#waitUntilOpen(signal)
    const request = new WriteRequest(this, stream, effect)
    if (mayWrite) {
      this.#stalledSince ??= performance.now()
      this.#writers.add(stream)
    }
    return request
  }

  #waitUntilOpen(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const proceed = (): void => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      const onAbort = (): void => {
        this.#queue = this.#queue.filter((waiter) => waiter !== proceed)
        reject(signal.reason)
      }
      if (signal.aborted) return reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      this.#queue.push(proceed)
      this.#onChange()
    })
  }

  onResponse({ mayWrite }: WriteEffect): void {
    if (!mayWrite) return
    const hasPendingWrite = this.writers.some(({ isWriting }) => isWriting)
    this.#stalledSince = hasPendingWrite ? performance.now() : null
  }

  onEnd(stream: StreamWrites, { mayWrite }: WriteEffect): void {
    if (!stream.isWriter) this.#writers.delete(stream)
    this.#onChange()
    if (mayWrite) this.#onWriteEnd()
  }

  /** Called when the server has responded to a probe, or has stopped: pending writes no longer show that it does not respond. */
  resetStall(): void {
    this.#stalledSince = null
  }

  /** Called when streams, by default all, were closed. A stream with a running request ends with that. */
  forgetIdle(streams: Iterable<StreamWrites> = this.#writers): void {
    for (const stream of streams) if (!stream.isRunning) this.#forget(stream)
    this.#onChange()
  }

  #forget(stream: StreamWrites): void {
    stream.forget()
    this.#writers.delete(stream)
  }

  /**
   * Runs `work` while no stream is known to hold the write lock or to wait for it. New writers wait until it is done, but no longer than
   * `limitMs` after its start. Returns without running it if current writers are not done within `maxWaitMs`. Ignores a
   * transaction that has held the lock for longer than the server protects it, if another writer is waiting here.
   */
  async withoutWriters(work: () => Promise<void>, limitMs: number, maxWaitMs = limitMs): Promise<void> {
    const startedAt = performance.now()
    this.#isClosed = true
    let limit: NodeJS.Timeout | undefined
    try {
      while (!this.#hasNoActiveWriter()) {
        if (performance.now() - startedAt >= maxWaitMs) return
        await this.#waitForChange()
      }
      limit = setTimeout(() => this.#open(), limitMs)
      await work()
    } finally {
      clearTimeout(limit)
      this.#open()
    }
  }

  #hasNoActiveWriter(): boolean {
    const now = performance.now()
    for (const stream of this.#writers) if (stream.hasExpired(now)) this.#forget(stream)
    if (this.#writers.size === 0) return true
    return this.#queue.length > 0 && this.writers.every((stream) => stream.hasUsedLockPeriod(now))
  }

  async #waitForChange(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, POLL_MS).unref()
      this.#onChange = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  #open(): void {
    this.#isClosed = false
    const queue = this.#queue
    this.#queue = []
    for (const proceed of queue) proceed()
  }
}
