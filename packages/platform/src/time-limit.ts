/** What ends a call too early, and the errors for it. */
interface Ends {
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  readonly late: () => Error
  readonly aborted: (reason: unknown) => Error
}

/** The time of a call and the signal of its caller in one. It also ends a wait for something that ignores its signal. */
export class TimeLimit {
  /** Gives up the timer and the listener, when the call is over. */
  readonly stop: () => void
  // not AbortSignal.any: Vercel's edge-runtime 4 does not have it
  readonly #controller = new AbortController()
  readonly #endsAt: number

  constructor({ timeoutMs, signal, late, aborted }: Ends) {
    this.#endsAt = performance.now() + timeoutMs
    const expire = (): void => this.#controller.abort(late())
    const timer = timeoutMs === Infinity ? undefined : setTimeout(expire, timeoutMs)
    const abort = (): void => this.#controller.abort(aborted(signal?.reason))
    signal?.addEventListener('abort', abort)
    if (signal?.aborted) abort()
    this.stop = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
  }

  /** What is left of the time in ms. */
  get leftMs(): number {
    return this.#endsAt - performance.now()
  }

  /** Waits for something no longer than the call may take. */
  async within<T>(start: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal } = this.#controller
    signal.throwIfAborted()
    let end = (): void => {}
    const ended = new Promise<never>((_, reject) => (end = () => reject(signal.reason as Error)))
    signal.addEventListener('abort', end)
    try {
      return await Promise.race([ended, start(signal)])
    } finally {
      signal.removeEventListener('abort', end)
    }
  }

  /** Lets some time pass. */
  async wait(ms: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined
    const pass = (): Promise<void> => new Promise((resolve) => (timer = setTimeout(resolve, ms)))
    await this.within(pass).finally(() => clearTimeout(timer))
  }
}
