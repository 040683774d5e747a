import type { StoredEffects, WriteEffect } from '../request/write-effect.ts'

/** How long the server lets a transaction hold the write lock. After that, a waiting writer takes over the lock. */
export const LOCK_PERIOD_MS = 5_000
/** After this time the server has closed an idle stream and rolled its transaction back. */
const STREAM_EXPIRED_MS = 11_000
/** Interval at which idle transactions are checked while the gate is closed. */
const POLL_MS = 100

/** The transaction state of a stream. */
export class StreamWriteState {
  /** Whether a transaction may be open. */
  isOpen = false
  /** When its last response arrived; null while a request is in flight. */
  idleSince: number | null = null
  /** Whether the request in flight may write. */
  isWriting = false
  /** Whether it has ever begun a transaction. Because its end cannot be detected reliably, such a stream is never held back. */
  hasBegun = false
  /** When the first write of its transaction was executed; null before. Has a meaning only while the stream is a writer. */
  lockedSince: number | null = null
  readonly stored: StoredEffects = new Map()
}

export interface WriteEnd {
  /** Whether its stream remains open. */
  readonly isContinued: boolean
  readonly hasError: boolean
}

/**
 * Tracks which streams of one database may hold its write lock or wait for it, and can hold back new ones: for a checkpoint, during
 * which libsql-server may lose a waiting writer. A stream that may hold the lock always passes; otherwise it could never release it.
 */
export class WriteGate {
  readonly #writers = new Set<StreamWriteState>()
  #queue: (() => void)[] = []
  #isClosed = false
  /** Wakes `withoutWriters`. */
  #onChange = (): void => {}
  /** When the last write got a response, or the first of the pending ones was sent; null if none is pending. */
  #stalledSince: number | null = null

  /** How long pending writes have had no response. */
  get stalledMs(): number {
    return this.#stalledSince === null ? 0 : performance.now() - this.#stalledSince
  }

  /** Streams that may hold the write lock, or wait for it at the server. */
  get writers(): readonly StreamWriteState[] {
    return [...this.#writers]
  }

  isWriter(stream: StreamWriteState): boolean {
    return this.#writers.has(stream)
  }

  /** Waits until a request may be sent. Rejects if its client disconnects meanwhile. */
  async enter(stream: StreamWriteState, effect: WriteEffect, signal: AbortSignal): Promise<void> {
    const isWriter = this.#writers.has(stream)
    if (effect.mayWrite && !isWriter && !stream.hasBegun && this.#isClosed) await this.#waitUntilOpen(signal)
    stream.hasBegun ||= effect.beginsTransaction
    stream.idleSince = null
    stream.isWriting = effect.mayWrite
    if (effect.mayWrite) this.#stalledSince ??= performance.now()
    // if the server took the lock from its transaction, the stream may have begun another
    if (effect.beginsTransaction || !isWriter) stream.lockedSince = null
    if (effect.mayWrite) this.#writers.add(stream)
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

  /** Called when the server has executed a request, before its result is known. */
  onResponse(stream: StreamWriteState, { mayWrite }: WriteEffect): void {
    this.markIdle(stream)
    if (!mayWrite) return
    const hasPendingWrite = this.writers.some(({ isWriting }) => isWriting)
    this.#stalledSince = hasPendingWrite ? performance.now() : null
  }

  /** Called when the server has responded, or the client no longer waits: the request may then still be executed. */
  markIdle(stream: StreamWriteState): void {
    stream.idleSince = performance.now()
    stream.isWriting = false
  }

  /** Called when the server has responded to a probe, or has stopped: pending writes no longer show that it does not respond. */
  resetStall(): void {
    this.#stalledSince = null
  }

  /** Called when the response was read to its end. */
  onEnd(stream: StreamWriteState, effect: WriteEffect, { isContinued, hasError }: WriteEnd): void {
    // only a write that was executed acquires the lock
    if (effect.mayWrite && !hasError) stream.lockedSince ??= performance.now()
    const hasEnded = effect.endsTransaction && !hasError
    stream.isOpen = isContinued && !hasEnded && (stream.isOpen || effect.beginsTransaction)
    if (!stream.isOpen) this.#writers.delete(stream)
    this.#onChange()
  }

  /** Called when streams, by default all, were closed: drops their transactions, except those with a request in flight. */
  forgetIdle(streams: Iterable<StreamWriteState> = this.#writers): void {
    for (const stream of streams) if (stream.idleSince !== null) this.#writers.delete(stream)
    this.#onChange()
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
    for (const stream of this.#writers)
      if (stream.idleSince !== null && now - stream.idleSince > STREAM_EXPIRED_MS)
        this.#writers.delete(stream)
    if (this.#writers.size === 0) return true
    const isExpired = ({ lockedSince, idleSince }: StreamWriteState): boolean =>
      idleSince !== null && lockedSince !== null && now - lockedSince > LOCK_PERIOD_MS
    return this.#queue.length > 0 && this.writers.every(isExpired)
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
