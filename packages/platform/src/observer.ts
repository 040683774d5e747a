import type { PlatformConfig, PlatformEvent } from './config.ts'
import { messageOf } from './fetch-failure.ts'

type Observe = NonNullable<PlatformConfig['observe']>

/** Observers whose first error has been reported. */
const failedObservers = new WeakSet<Observe>()

/** Passes an event to an observer. Its errors do not affect the call; the first one is reported as a warning. */
export function emit(observe: Observe, event: PlatformEvent): void {
  const warn = (error: unknown): void => {
    if (failedObservers.has(observe)) return
    failedObservers.add(observe)
    const { process } = globalThis as { process?: { emitWarning?(message: string): void } }
    const message = `observe failed: ${(error as Error | null)?.stack ?? messageOf(error)}`
    if (process?.emitWarning) process.emitWarning(message)
    else console.warn(message)
  }
  try {
    const result: unknown = observe(event)
    // an observer may be an async function
    if (result instanceof Promise) result.catch(warn)
  } catch (error) {
    warn(error)
  }
}
