import { closedError, queueFull, timeoutError } from './transport/failure.ts'

/** Ends the wait of one call: it may go, or it is told why not. */
type Go = (refusal?: { readonly reason: unknown }) => void

/** A stream that the server holds. */
export interface OpenStream {
  /** Tells the server that nobody goes on with it. Never rejects. */
  abandon(): Promise<void>
}

/**
 * Lets a number of requests through at once; the others wait in line. A request that goes on with a stream does not ask:
 * in line behind others that wait for the write slot it would keep them, and itself, from ever getting on.
 */
export class RequestGate {
  readonly #concurrency: number
  readonly #queueLimit: number
  readonly #waiting = new Set<Go>()
  readonly #streams = new Set<OpenStream>()
  #free: number
  #isClosed = false
  #whenEmpty: (() => void) | undefined

  constructor(concurrency: number, queueLimit: number) {
    this.#concurrency = concurrency
    this.#queueLimit = queueLimit
    this.#free = concurrency
  }

  /**
   * Waits for a place; undefined when there is one at once.
   * @throws TransportError when the line is full or the time is over; the signal's reason; TypeError once closed
   */
  enter(timeoutMs: number, origin: string, signal: AbortSignal | undefined): Promise<void> | undefined {
    if (this.#isClosed) throw closedError()
    signal?.throwIfAborted()
    if (this.#free > 0) {
      this.#free -= 1
      return undefined
    }
    if (this.#waiting.size >= this.#queueLimit) throw queueFull(this.#queueLimit)
    return new Promise((resolve, reject) => {
      const go: Go = (refusal) => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
        this.#waiting.delete(go)
        if (refusal) reject(refusal.reason)
        else resolve()
      }
      const abort = (): void => go({ reason: signal?.reason })
      const timeout = (): void => go({ reason: timeoutError(timeoutMs, origin, false) })
      const timer = timeoutMs === Infinity ? undefined : setTimeout(timeout, timeoutMs)
      signal?.addEventListener('abort', abort)
      this.#waiting.add(go)
    })
  }

  /** Gives the place to the next in line. */
  leave(): void {
    const [next] = this.#waiting
    if (next) next()
    else this.#free += 1
    this.#checkEmpty()
  }

  /** A stream is open from now on, or no longer. */
  noteStream(stream: OpenStream, isOpen: boolean): void {
    if (isOpen) this.#streams.add(stream)
    else this.#streams.delete(stream)
    this.#checkEmpty()
  }

  /**
   * Lets nobody in any more. Settles when all that were let in, or waited in line, are through, or the time is over; streams
   * that are open then are abandoned, so that none keeps the write slot.
   */
  async close(drainMs: number): Promise<void> {
    this.#isClosed = true
    if (drainMs > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, drainMs)
        this.#whenEmpty = () => {
          clearTimeout(timer)
          resolve()
        }
        this.#checkEmpty()
      })
    }
    for (const go of this.#waiting) go({ reason: closedError() })
    await Promise.all([...this.#streams].map((stream) => stream.abandon()))
  }

  #checkEmpty(): void {
    if (this.#free === this.#concurrency && this.#streams.size === 0) this.#whenEmpty?.()
  }
}
