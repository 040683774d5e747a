import { AsyncLocalStorage } from 'node:async_hooks'
import type { Lifetime } from '../http/lifetime.ts'
import { NESTED_WAIT_MS } from '../limits.ts'
import type { LockHolder } from './lock-holder.ts'
import { quote } from './quote.ts'

/** A callback that runs, and those around it. */
interface Frame {
  readonly lock: object
  readonly holder: LockHolder
  readonly around: Frame | undefined
}

// made with the first transaction: whoever has none pays nothing
let storage: AsyncLocalStorage<Frame> | undefined

/** Runs the callback of a transaction, so that what begins in it can be told from what begins elsewhere. */
export function runInside<T>(lock: object, holder: LockHolder, callback: () => T): T {
  storage ??= new AsyncLocalStorage()
  return storage.run({ lock, holder, around: storage.getStore() }, callback)
}

/** The same for the rest of the function that calls it, and what that calls. */
export function enterInside(lock: object, holder: LockHolder): void {
  storage ??= new AsyncLocalStorage()
  storage.enterWith({ lock, holder, around: storage.getStore() })
}

/**
 * Waits as long as a transaction inside whose callback this is called has the lock; null when it is called in none.
 * @throws TypeError when that does nothing meanwhile: it waits for the caller, and the caller for it; the signal's reason
 */
export function waitForAround(
  lock: object,
  lifetime: Lifetime,
  sql: string,
  signal: AbortSignal | undefined,
): Promise<void> | null {
  const innermost = storage?.getStore()
  return innermost ? waitForFrames(innermost, lock, lifetime, sql, signal) : null
}

async function waitForFrames(
  innermost: Frame,
  lock: object,
  lifetime: Lifetime,
  sql: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const began = lifetime.clock.now()
  for (let frame: Frame | undefined = innermost; frame; frame = frame.around) {
    const { holder } = frame
    while (frame.lock === lock && holder.holdsLock) {
      const waited = holder.idleSince === null ? 0 : lifetime.clock.now() - Math.max(began, holder.idleSince)
      if (waited >= NESTED_WAIT_MS)
        throw new TypeError(
          `${quote(sql)} waits for the write lock, which the transaction around it has (${quote(holder.lastSql)}), and that waits for it: use the transaction's own handle, tx`,
        )
      await lifetime.wait({ ms: NESTED_WAIT_MS / 4, signal }).promise
    }
  }
}
