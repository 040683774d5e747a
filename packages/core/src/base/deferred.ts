import type { Clock } from './clock.ts'

export interface DeferredOptions {
  /** Time limit of the wait in ms. @default Infinity */
  readonly ms?: number | undefined
  readonly signal?: AbortSignal | undefined
  /** Returns the error of a timeout. Without it, the promise resolves with undefined at the timeout, whatever `T` is. */
  readonly onTimeout?: (() => unknown) | undefined
  /** Called once, in the same tick and just before the promise settles. */
  readonly onEnd?: (() => void) | undefined
}

/** A promise that is settled by its owner, by a signal (with its reason), or by a timeout. Only the first of these has an effect. */
export class Deferred<T = void> {
  readonly promise: Promise<T>
  resolve!: (value: T) => void
  reject!: (reason: unknown) => void
  isSettled = false
  /** Whether it was resolved; false while it is pending, and after a rejection. */
  isResolved = false

  constructor(clock: Clock, { ms = Infinity, signal, onTimeout, onEnd }: DeferredOptions) {
    this.promise = new Promise((resolve, reject) => {
      const abort = (): void => this.reject(signal?.reason)
      const end = (): void => {
        if (this.isSettled) return
        this.isSettled = true
        cancel()
        signal?.removeEventListener('abort', abort)
        onEnd?.()
      }
      // Assigned to variables first: V8 treats a function literal assigned to a property as long-lived, so only a full
      // garbage collection frees the function and everything that it references.
      const resolveOnce = (value: T): void => {
        if (!this.isSettled) this.isResolved = true
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
      // in a microtask, because the caller must receive this object first
      if (signal?.aborted) queueMicrotask(abort)
    })
  }
}
