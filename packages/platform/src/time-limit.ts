interface TimeLimitOptions {
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  readonly onTimeout: () => Error
  readonly onAbort: (reason: unknown) => Error
}

/** Combines the timeout of a call and the signal of its caller. Also stops waiting for work that ignores its signal. */
export class TimeLimit {
  /** Releases the timer and the listener when the call has ended. */
  readonly stop: () => void
  // not AbortSignal.any, which Vercel's edge-runtime 4 lacks
  readonly #controller = new AbortController()
  readonly #endsAt: number

  constructor({ timeoutMs, signal, onTimeout, onAbort }: TimeLimitOptions) {
    this.#endsAt = performance.now() + timeoutMs
    const expire = (): void => this.#controller.abort(onTimeout())
    const timer = timeoutMs === Infinity ? undefined : setTimeout(expire, timeoutMs)
    const abort = (): void => this.#controller.abort(onAbort(signal?.reason))
    signal?.addEventListener('abort', abort)
    if (signal?.aborted) abort()
    this.stop = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
  }

  /** Remaining time in ms. */
  get remainingMs(): number {
    return this.#endsAt - performance.now()
  }

  /** Starts work and waits for it. @throws the error of `onTimeout` or `onAbort` as soon as the limit is reached */
  async within<T>(start: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal } = this.#controller
    signal.throwIfAborted()
    let abort = (): void => {}
    const aborted = new Promise<never>((_, reject) => (abort = () => reject(signal.reason as Error)))
    signal.addEventListener('abort', abort)
    try {
      return await Promise.race([aborted, start(signal)])
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  /** Waits for a time in ms. @throws like `within` */
  async wait(ms: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined
    const sleep = (): Promise<void> => new Promise((resolve) => (timer = setTimeout(resolve, ms)))
    await this.within(sleep).finally(() => clearTimeout(timer))
  }
}
