import type { StoredEffects, WriteEffect } from '../request/write-effect.ts'

/** How long the server leaves the write lock to a transaction for which another one waits. */
const WINDOW_MS = 5_000
/** By then the server has closed a stream without requests, and rolled its transaction back. */
const STREAM_GONE_MS = 11_000
/** How often idle transactions are looked at while the gate is closed. */
const LOOK_MS = 100

/** What is known of the transaction of a stream. */
export class StreamWrites {
  /** Whether a transaction may be open. */
  isOpen = false
  /** When its last request was answered; null while one is under way. */
  idleSince: number | null = null
  /** Whether it has begun a transaction: whether that is over cannot be told for certain, so it is never held back. */
  hasBegun = false
  /** Since when it holds the write lock, if it does; null until its first write has run. */
  lockedSince: number | null = null
  readonly stored: StoredEffects = new Map()
}

/** How a request ended. */
export interface WriteEnd {
  /** Whether its stream goes on. */
  readonly goesOn: boolean
  readonly hasError: boolean
}

/**
 * Knows which streams of one database may hold its write lock or wait for it, and can keep new ones away from the server.
 * A stream that may hold the lock always passes, or it would never give the lock back.
 */
export class WriteGate {
  readonly #writers = new Set<StreamWrites>()
  #waiting: (() => void)[] = []
  #isClosed = false
  #changed = (): void => {}
  /** When the first request was sent that may write, behind the last one that was answered; null for none. */
  #silentSince: number | null = null

  /** For how long no write was answered while at least one waited. */
  get silentMs(): number {
    return this.#silentSince === null ? 0 : performance.now() - this.#silentSince
  }

  /** Streams that may hold the write lock, or wait for it at the server. */
  get writers(): readonly StreamWrites[] {
    return [...this.#writers]
  }

  /** Whether a stream is one of them. */
  isWriter(stream: StreamWrites): boolean {
    return this.#writers.has(stream)
  }

  /** Waits until a request may be sent. Rejects when its client leaves meanwhile. */
  async enter(stream: StreamWrites, effect: WriteEffect, signal: AbortSignal): Promise<void> {
    const isWriter = this.#writers.has(stream)
    if (effect.mayWrite && !isWriter && !stream.hasBegun && this.#isClosed) await this.#opening(signal)
    stream.hasBegun ||= effect.opens
    stream.idleSince = null
    if (effect.mayWrite) this.#silentSince ??= performance.now()
    // a transaction that the server has taken the lock from may have been followed by another one
    if (effect.opens || !isWriter) stream.lockedSince = null
    if (effect.mayWrite) this.#writers.add(stream)
  }

  #opening(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const pass = (): void => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        this.#waiting = this.#waiting.filter((each) => each !== pass)
        reject(signal.reason)
      }
      if (signal.aborted) return leave()
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(pass)
      this.#changed()
    })
  }

  /** The server has run the request; what came of it is not known yet. */
  answered(stream: StreamWrites, { mayWrite }: WriteEffect): void {
    this.left(stream)
    if (!mayWrite) return
    const isWaitedFor = this.writers.some(({ idleSince }) => idleSince === null)
    this.#silentSince = isWaitedFor ? performance.now() : null
  }

  /** Its client waits for the request no longer; it may still run. */
  left(stream: StreamWrites): void {
    stream.idleSince = performance.now()
  }

  /** The server answers writes, or is another one. */
  noteAnswer(): void {
    this.#silentSince = null
  }

  /** The answer was read to its end. */
  ended(stream: StreamWrites, effect: WriteEffect, { goesOn, hasError }: WriteEnd): void {
    // only a write that has run has the lock
    if (effect.mayWrite && !hasError) stream.lockedSince ??= performance.now()
    const isOver = effect.ends && !hasError
    stream.isOpen = goesOn && !isOver && (stream.isOpen || effect.opens)
    if (!stream.isOpen) this.#writers.delete(stream)
    this.#changed()
  }

  /** Forgets the transactions of streams that are gone, those that are under way excepted. */
  forgetIdle(): void {
    for (const stream of this.#writers) if (stream.idleSince !== null) this.#writers.delete(stream)
    this.#changed()
  }

  /**
   * Runs something while no stream holds the write lock or waits for it: new writers wait until it is done, at the longest
   * for `limitMs` behind its start. Gives up when that does not come within `patienceMs`. A transaction that is older than
   * the server protects from waiting writers counts as none as soon as a writer waits here.
   */
  async whileNoWriter(work: () => Promise<void>, limitMs: number, patienceMs = limitMs): Promise<void> {
    const begun = performance.now()
    this.#isClosed = true
    let limit: NodeJS.Timeout | undefined
    try {
      while (!this.#isQuiet()) {
        if (performance.now() - begun >= patienceMs) return
        await this.#change()
      }
      limit = setTimeout(() => this.#open(), limitMs)
      await work()
    } finally {
      clearTimeout(limit)
      this.#open()
    }
  }

  #isQuiet(): boolean {
    const now = performance.now()
    for (const stream of this.#writers)
      if (stream.idleSince !== null && now - stream.idleSince > STREAM_GONE_MS) this.#writers.delete(stream)
    if (this.#writers.size === 0) return true
    const isOld = ({ lockedSince, idleSince }: StreamWrites): boolean =>
      idleSince !== null && lockedSince !== null && now - lockedSince > WINDOW_MS
    return this.#waiting.length > 0 && this.writers.every(isOld)
  }

  async #change(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LOOK_MS).unref()
      this.#changed = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  #open(): void {
    this.#isClosed = false
    const waiting = this.#waiting
    this.#waiting = []
    for (const pass of waiting) pass()
  }
}
