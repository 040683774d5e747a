import { closedError, queueFull, timeoutError } from '../transport/failure.ts'
import type { TransportRequest } from '../transport/transport.ts'

/** Ends the wait of one call: it may go, or it is told why not. */
type Go = (refusal?: { readonly reason: unknown }) => void

/** Requests of one kind. */
interface Line {
  free: number
  readonly waiting: Set<Go>
}

/** A stream that the server holds. */
export interface OpenStream {
  /** Tells the server that nobody goes on with it. Never rejects. */
  abandon(): Promise<void>
}

/**
 * Lets a number of requests through at once; the others wait in line. Reads have places and a line of their own: behind
 * those that wait for the write slot they would keep a transaction that awaits them, and so the slot, from getting on. For
 * the same reason a request that goes on with a stream does not ask.
 */
export class RequestGate {
  readonly #concurrency: number
  readonly #queueLimit: number
  readonly #reads: Line
  readonly #writes: Line
  readonly #streams = new Set<OpenStream>()
  /** Calls that rest before they are sent again. */
  readonly #resting = new Set<Go>()
  /** Closings that wait for calls to end. */
  readonly #closings = new Set<Go>()
  #calls = 0
  #isClosed = false
  #cut: Promise<unknown> | undefined

  constructor(concurrency: number, queueLimit: number) {
    this.#concurrency = concurrency
    this.#queueLimit = queueLimit
    this.#reads = { free: concurrency, waiting: new Set() }
    this.#writes = { free: concurrency, waiting: new Set() }
  }

  /** Whether new calls are refused. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** A call has begun, which may take several requests with rests between them: closing with patience waits for its end. */
  begin(hasBegun = false): void {
    this.#refuse(hasBegun)
    this.#calls += 1
  }

  end(): void {
    this.#calls -= 1
    this.#checkEmpty()
  }

  /**
   * Waits for a place for a request of a call that has begun; undefined when there is one at once.
   * @param isRead whether it waits for nobody who writes
   * @throws TransportError when the line is full or the time is over; the signal's reason; TypeError once cut off
   */
  enter(
    isRead: boolean,
    { timeoutMs, origin, signal }: Pick<TransportRequest, 'timeoutMs' | 'origin' | 'signal'>,
  ): Promise<void> | undefined {
    this.#refuse(true)
    signal?.throwIfAborted()
    const line = isRead ? this.#reads : this.#writes
    if (line.free > 0) {
      line.free -= 1
      return undefined
    }
    if (line.waiting.size >= this.#queueLimit) throw queueFull(this.#queueLimit)
    return waitIn(line.waiting, timeoutMs, signal, () => timeoutError(timeoutMs, origin, false))
  }

  /** Gives the place to the next in line. */
  leave(isRead: boolean): void {
    const line = isRead ? this.#reads : this.#writes
    const [next] = line.waiting
    if (next) next()
    else line.free += 1
    this.#checkEmpty()
  }

  /** Lets time pass between two requests of a call. @throws the signal's reason; TypeError once closed */
  async rest(ms: number, signal?: AbortSignal): Promise<void> {
    this.#refuse(true)
    signal?.throwIfAborted()
    await waitIn(this.#resting, ms, signal)
  }

  /** A stream is open from now on, or no longer. */
  noteStream(stream: OpenStream, isOpen: boolean): void {
    if (isOpen) this.#streams.add(stream)
    else this.#streams.delete(stream)
    this.#checkEmpty()
  }

  /**
   * Lets no new call in. Settles when all that had begun, or waited in line, are through, the time is over, or another
   * closing has less patience; streams that are open then are abandoned, so that none keeps the write slot.
   */
  async close(drainMs: number): Promise<void> {
    this.#isClosed = true
    if (drainMs > 0 && !this.#cut) {
      const patience = waitIn(this.#closings, drainMs)
      this.#checkEmpty()
      await patience
    }
    this.#cut ??= this.#cutOff()
    await this.#cut
  }

  #cutOff(): Promise<unknown> {
    for (const go of this.#closings) go()
    for (const { waiting } of [this.#reads, this.#writes, { waiting: this.#resting }])
      for (const go of waiting) go({ reason: closedError() })
    return Promise.all([...this.#streams].map((stream) => stream.abandon()))
  }

  #refuse(hasBegun: boolean): void {
    if (this.#cut || (this.#isClosed && !hasBegun)) throw closedError()
  }

  #checkEmpty(): void {
    if (!this.#isClosed || !this.#isEmpty) return
    // whoever got an answer just now may have a stream by it
    setTimeout(() => {
      if (this.#isEmpty) for (const go of this.#closings) go()
    })
  }

  get #isEmpty(): boolean {
    const free = this.#reads.free + this.#writes.free
    return this.#calls === 0 && this.#streams.size === 0 && free === 2 * this.#concurrency
  }
}

/** Waits in a set for its turn; when the time is over before, it goes, or rejects with what `late` makes. */
function waitIn(waiting: Set<Go>, ms: number, signal?: AbortSignal, late?: () => Error): Promise<void> {
  return new Promise((resolve, reject) => {
    const go: Go = (refusal) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      waiting.delete(go)
      if (refusal) reject(refusal.reason)
      else resolve()
    }
    const abort = (): void => go({ reason: signal?.reason })
    const timer = ms === Infinity ? undefined : setTimeout(() => go(late && { reason: late() }), ms)
    signal?.addEventListener('abort', abort)
    waiting.add(go)
  })
}
