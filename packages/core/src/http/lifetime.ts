import { inNextTurn } from '#next-turn'
import type { Clock } from '../base/clock.ts'
import type { Deadline } from '../base/deadline.ts'
import { Deferred, type DeferredOptions } from '../base/deferred.ts'
import { CLOSE_TIMEOUT_MS } from '../base/limits.ts'
import { closedError, timeoutError } from '../transport/failure.ts'

/** A stream that is open on the server. */
export interface OpenStream {
  /** Closes the stream. Never rejects. */
  abandon(): Promise<void>
}

export interface WaitOptions extends Omit<DeferredOptions, 'ms'> {
  /** If absent, there is no time limit. */
  readonly deadline?: Pick<Deadline, 'remainingMs' | 'timeoutMs'> | undefined
  /** Called when the wait ends early; returns whether the awaited work may have been executed. @default () => false */
  readonly mayHaveRun?: (() => boolean) | undefined
  /** Whether the wait continues when `close` aborts pending calls. */
  readonly outlivesClient?: boolean | undefined
}

/** Tracks the pending calls, streams and background work of a client, and ends them when it is closed. */
export class Lifetime {
  readonly clock: Clock
  readonly #origin: string
  readonly #streams = new Set<OpenStream>()
  /** Pending waits for a permit, a token, a response or a retry, each with its `mayHaveRun`. */
  readonly #pending = new Map<{ reject(reason: unknown): void }, (() => boolean) | undefined>()
  /** Work that `close` waits for, such as requests that keep running after an abort, and the functions that abort it. */
  readonly #background = new Map<Promise<unknown>, () => void>()
  /** Pending calls to `close`. */
  readonly #drainers = new Set<Deferred>()
  #calls = 0
  /** Whether new calls are rejected. */
  isClosed = false
  #aborted: Promise<unknown> | undefined

  /** @param origin the server's origin, for error messages */
  constructor(clock: Clock, origin: string) {
    this.clock = clock
    this.#origin = origin
  }

  /** Whether `close` no longer waits for pending calls. From then on, only requests that close streams are sent. */
  get isAborted(): boolean {
    return this.#aborted !== undefined
  }

  /**
   * Checks whether a call may begin.
   * @param isContinuation whether it is the rest of a call that began before the client was closed
   * @throws the signal's reason; TransportError if the client is closed
   */
  checkOpen(isContinuation?: boolean, signal?: AbortSignal): void {
    signal?.throwIfAborted()
    if (this.#aborted || (this.isClosed && !isContinuation)) throw closedError()
  }

  /** Counts a call, which may take several requests with waits between them. The parameter and errors are those of `checkOpen`. */
  begin(isContinuation?: boolean): void {
    this.checkOpen(isContinuation)
    this.#calls += 1
  }

  /** Counts the end of a call. */
  end(): void {
    this.#calls -= 1
    if (this.isClosed) this.#checkEmpty()
  }

  /**
   * Returns a wait that ends at the latest when the deadline passes, the signal is aborted, or (unless `outlivesClient`) `close` aborts
   * pending calls.
   * @throws TransportError after that
   */
  wait<T = void>(options: WaitOptions): Deferred<T> {
    const { deadline, mayHaveRun, outlivesClient, signal, onEnd } = options
    if (this.#aborted && !outlivesClient) throw closedError()
    const waiter: Deferred<T> = new Deferred<T>(this.clock, {
      ms: deadline?.remainingMs,
      signal,
      onTimeout: options.onTimeout ?? (() => timeoutError(deadline?.timeoutMs, this.#origin, mayHaveRun?.())),
      onEnd: () => {
        this.#pending.delete(waiter)
        onEnd?.()
      },
    })
    if (!outlivesClient) this.#pending.set(waiter, mayHaveRun)
    return waiter
  }

  /** Starts work and waits for it, with the same limits as `wait`. */
  until<T>(work: () => Promise<T>, options: WaitOptions): Promise<T> {
    const waiter = this.wait<T>(options)
    work().then(waiter.resolve, waiter.reject)
    return waiter.promise
  }

  /** Waits for a time in ms. @throws the signal's reason; TransportError when `close` aborts pending calls */
  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const waiter = this.wait({ signal, onEnd: () => cancel() })
    const cancel = this.clock.after(ms, () => waiter.resolve())
    await waiter.promise
  }

  /** Registers background work that `close` waits for. */
  addBackground(work: Promise<unknown>, abort: () => void = () => {}): void {
    const remove = (): unknown => this.#background.delete(settled)
    const settled: Promise<unknown> = work.then(remove, remove)
    this.#background.set(settled, abort)
  }

  /** Registers a stream that was opened on the server, or removes one that was closed. */
  trackStream(stream: OpenStream, isOpen: boolean): void {
    if (isOpen) this.#streams.add(stream)
    else this.#streams.delete(stream)
    if (this.isClosed) this.#checkEmpty()
  }

  /**
   * Rejects new calls. Waits until all pending ones have settled and all streams are closed, or until the shortest `drainMs` of all
   * calls to `close` has passed; then aborts pending calls and closes open streams, so that none keeps the write lock, and waits for
   * background work, for at most `CLOSE_TIMEOUT_MS`.
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
    // the calls aborted above settle first
    await Promise.resolve()
    const limit = new Deferred(this.clock, { ms: CLOSE_TIMEOUT_MS })
    while (this.#background.size > 0 && !limit.isSettled)
      await Promise.race([limit.promise, Promise.all(this.#background.keys())])
    limit.resolve()
    for (const abort of this.#background.values()) abort()
  }

  #checkEmpty(): void {
    if (!this.#isEmpty) return
    // checked again in the next turn of the event loop: a response that has just arrived may have opened a stream
    inNextTurn(() => {
      if (this.#isEmpty) for (const drainer of this.#drainers) drainer.resolve()
    })
  }

  get #isEmpty(): boolean {
    return this.#calls === 0 && this.#streams.size === 0
  }
}
