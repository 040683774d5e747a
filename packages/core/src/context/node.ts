import { AsyncLocalStorage } from 'node:async_hooks'

interface Frame {
  readonly owner: object
  readonly value: object
  readonly around: Frame | undefined
}

// made with the first transaction: whoever has none pays nothing
let storage: AsyncLocalStorage<Frame> | undefined

/** Finds what a callback around this call was given for an owner; null outside, and where nobody can tell. */
export function findAround<T extends object>(owner: object, accepts: (value: T) => boolean): T | null {
  for (let frame = storage?.getStore(); frame; frame = frame.around)
    if (frame.owner === owner && accepts(frame.value as T)) return frame.value as T
  return null
}

/** Runs a callback so that {@link findAround} finds the value in everything that begins in it. */
export function runInside<T>(owner: object, value: object, callback: () => T): T {
  storage ??= new AsyncLocalStorage()
  return storage.run({ owner, value, around: storage.getStore() }, callback)
}

/** The same for the rest of the function that calls it, and what it calls. */
export function enter(owner: object, value: object): void {
  storage ??= new AsyncLocalStorage()
  storage.enterWith({ owner, value, around: storage.getStore() })
}
