import type { Clock } from './clock.ts'

export interface DeferredOptions {
  /** @default Infinity */
  readonly ms?: number | undefined
  readonly signal?: AbortSignal | undefined
  /** Makes the error when the time is over. Without it the wait ends well then. */
  readonly onTimeout?: (() => unknown) | undefined
  /** Called when the wait is over, however it ends. */
  readonly onEnd?: (() => void) | undefined
}

/** A promise that is settled from outside, by a signal (with its reason), or by the end of its time. */
export class Deferred<T = void> {
  readonly promise: Promise<T>
  resolve!: (value: T) => void
  reject!: (reason: unknown) => void
  isOver = false
  isResolved = false

  constructor(clock: Clock, { ms = Infinity, signal, onTimeout, onEnd }: DeferredOptions) {
    this.promise = new Promise((resolve, reject) => {
      const abort = (): void => this.reject(signal?.reason)
      const end = (): void => {
        this.isOver = true
        cancel()
        signal?.removeEventListener('abort', abort)
        onEnd?.()
      }
      // Names first: V8 takes a function literal that is assigned to a property for one that lives long, and only a full garbage
      // collection frees it, and all that it holds.
      const resolveOnce = (value: T): void => {
        if (!this.isOver) this.isResolved = true
        end()
        resolve(value)
      }
      const rejectOnce = (reason: unknown): void => {
        end()
        reject(reason)
      }
      this.resolve = resolveOnce
      this.reject = rejectOnce
      const cancel = clock.after(ms, () =>
        onTimeout ? this.reject(onTimeout()) : this.resolve(undefined as T),
      )
      signal?.addEventListener('abort', abort)
      // not at once: the caller must have this waiter first
      if (signal?.aborted) queueMicrotask(abort)
    })
  }
}
