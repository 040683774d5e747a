import type { Clock } from '../base/clock.ts'
import type { Deadline } from '../base/deadline.ts'
import { Deferred, type DeferredOptions } from '../base/deferred.ts'
import { CLOSE_TIMEOUT_MS } from '../base/limits.ts'
import { closedError, timeoutError } from '../transport/failure.ts'

/** A stream that the server holds. */
export interface OpenStream {
  /** Closes it, and settles when that is done. Never rejects. */
  abandon(): Promise<void>
}

export interface WaitOptions extends Omit<DeferredOptions, 'ms'> {
  /** Absent: without a time limit. */
  readonly deadline?: Pick<Deadline, 'leftMs' | 'timeoutMs'> | undefined
  /** Asked when the wait ends too early: whether what is waited for may have run. @default never */
  readonly mayHaveRun?: (() => boolean) | undefined
  /** Whether it goes on while the client is being closed. */
  readonly outlivesClient?: boolean | undefined
}

/** What a client has under way, and how that ends when the client is closed. */
export class Lifetime {
  readonly clock: Clock
  readonly #origin: string
  readonly #streams = new Set<OpenStream>()
  /** Calls that wait: for a place, a token, an answer, or before they are sent again. */
  readonly #pending = new Map<{ reject(reason: unknown): void }, (() => boolean) | undefined>()
  /** Requests that were given up and are left to finish, with what ends them. */
  readonly #background = new Map<Promise<unknown>, () => void>()
  /** Calls of `close` that wait for everything else to end. */
  readonly #drainers = new Set<Deferred>()
  #calls = 0
  /** Whether new calls are refused. */
  isClosed = false
  #aborted: Promise<unknown> | undefined

  /** @param origin of the server, for errors */
  constructor(clock: Clock, origin: string) {
    this.clock = clock
    this.#origin = origin
  }

  /** Whether the time of `close` is over, so that nothing is sent any more. */
  get isAborted(): boolean {
    return this.#aborted !== undefined
  }

  /** A call has begun, which may take several requests with waits between them. @throws TransportError once the client is closed */
  begin(hasBegun = false): void {
    if (this.#aborted || (this.isClosed && !hasBegun)) throw closedError()
    this.#calls += 1
  }

  end(): void {
    this.#calls -= 1
    if (this.isClosed) this.#checkEmpty()
  }

  /**
   * Lets a call wait for something: until it happens, the deadline passes, the signal is aborted, or the client is closed.
   * @throws TransportError once the client is closed
   */
  wait<T = void>({ deadline, mayHaveRun, outlivesClient, ...options }: WaitOptions): Deferred<T> {
    if (this.#aborted && !outlivesClient) throw closedError()
    const waiter: Deferred<T> = new Deferred<T>(this.clock, {
      ms: deadline?.leftMs,
      signal: options.signal,
      onTimeout: options.onTimeout ?? (() => timeoutError(deadline?.timeoutMs, this.#origin, mayHaveRun?.())),
      onEnd: () => {
        this.#pending.delete(waiter)
        options.onEnd?.()
      },
    })
    if (!outlivesClient) this.#pending.set(waiter, mayHaveRun)
    return waiter
  }

  /** Begins work and waits for it, as `wait` does. */
  until<T>(work: () => Promise<T>, options: WaitOptions): Promise<T> {
    const waiter = this.wait<T>(options)
    work().then(waiter.resolve, waiter.reject)
    return waiter.promise
  }

  /** Waits for a time in ms. @throws the signal's reason; TransportError when the client is closed */
  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const waiter = this.wait({ signal, onEnd: () => cancel() })
    const cancel = this.clock.after(ms, () => waiter.resolve())
    await waiter.promise
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
    if (this.isClosed) this.#checkEmpty()
  }

  /**
   * Lets no new call begin. Settles when all that had begun are through, the time is over, or another `close` has less
   * patience; what is under way then is given up, and streams that are open are closed, so that none keeps the write lock.
   */
  async close(drainMs: number): Promise<void> {
    this.isClosed = true
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
    for (const [waiter, mayHaveRun] of this.#pending) waiter.reject(closedError(mayHaveRun?.()))
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
