import type { Clock } from '../base/clock.ts'
import { Deferred, type DeferredOptions } from '../base/deferred.ts'
import { CLOSE_TIMEOUT_MS } from '../base/limits.ts'
import { closedError } from '../transport/failure.ts'

/** A stream that the server holds. */
export interface OpenStream {
  /** Closes it, and settles when that is done. Never rejects. */
  abandon(): Promise<void>
}

/** What a client has under way, and how that ends when the client is closed. */
export class Lifetime {
  readonly clock: Clock
  readonly #streams = new Set<OpenStream>()
  /** Calls that wait: for a place, a token, an answer, or before they are sent again. */
  readonly #pending = new Map<{ reject(reason: unknown): void }, () => boolean>()
  /** Requests that were given up and are left to finish, with what ends them. */
  readonly #background = new Map<Promise<unknown>, () => void>()
  /** Calls of `close` that wait for everything else to end. */
  readonly #drainers = new Set<Deferred>()
  #calls = 0
  #isClosed = false
  #aborted: Promise<unknown> | undefined

  constructor(clock: Clock) {
    this.clock = clock
  }

  /** Whether new calls are refused. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** A call has begun, which may take several requests with waits between them. @throws TransportError once the client is closed */
  begin(hasBegun = false): void {
    if (this.#aborted || (this.#isClosed && !hasBegun)) throw closedError()
    this.#calls += 1
  }

  end(): void {
    this.#calls -= 1
    if (this.#isClosed) this.#checkEmpty()
  }

  /**
   * Lets a call wait for something. @param mayHaveRun asked when the client is closed meanwhile
   * @throws TransportError once the client is closed
   */
  wait<T = void>(options: DeferredOptions, mayHaveRun = (): boolean => false): Deferred<T> {
    if (this.#aborted) throw closedError()
    const waiter: Deferred<T> = new Deferred<T>(this.clock, {
      ...options,
      onEnd: () => {
        this.#pending.delete(waiter)
        options.onEnd?.()
      },
    })
    this.#pending.set(waiter, mayHaveRun)
    return waiter
  }

  /** Lets work go on in the background, for `close` to wait for. */
  addBackground(work: Promise<unknown>, abort: () => void = () => {}): void {
    const remove = (): unknown => this.#background.delete(done)
    const done: Promise<unknown> = work.then(remove, remove)
    this.#background.set(done, abort)
  }

  /** A stream is open on the server from now on, or no longer. */
  trackStream(stream: OpenStream, isOpen: boolean): void {
    if (isOpen) this.#streams.add(stream)
    else this.#streams.delete(stream)
    if (this.#isClosed) this.#checkEmpty()
  }

  /**
   * Lets no new call begin. Settles when all that had begun are through, the time is over, or another `close` has less
   * patience; what is under way then is given up, and streams that are open are closed, so that none keeps the write lock.
   */
  async close(drainMs: number): Promise<void> {
    this.#isClosed = true
    if (drainMs > 0 && !this.#aborted) {
      const drainer = new Deferred(this.clock, { ms: drainMs })
      this.#drainers.add(drainer)
      this.#checkEmpty()
      await drainer.promise
    }
    this.#aborted ??= this.#abort()
    await this.#aborted
  }

  async #abort(): Promise<void> {
    for (const drainer of this.#drainers) drainer.resolve()
    for (const [waiter, mayHaveRun] of this.#pending) waiter.reject(closedError(mayHaveRun()))
    for (const stream of this.#streams) this.addBackground(stream.abandon())
    // those whose call was given up just now hear of it first
    await Promise.resolve()
    const limit = new Deferred(this.clock, { ms: CLOSE_TIMEOUT_MS })
    while (this.#background.size > 0 && !limit.isOver)
      await Promise.race([limit.promise, Promise.all(this.#background.keys())])
    limit.resolve()
    for (const abort of this.#background.values()) abort()
  }

  #checkEmpty(): void {
    if (!this.#isEmpty) return
    // an answer that has come just now may have brought a stream
    setTimeout(() => {
      if (this.#isEmpty) for (const drainer of this.#drainers) drainer.resolve()
    })
  }

  get #isEmpty(): boolean {
    return this.#calls === 0 && this.#streams.size === 0
  }
}
