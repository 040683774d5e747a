/** A signal, and the number of its listeners. */
export interface WatchedSignal {
  readonly controller: AbortController
  listenerCount: number
}

/** Creates a signal whose listeners are counted. */
export function createWatchedSignal(): WatchedSignal {
  const controller = new AbortController()
  const watched = { controller, listenerCount: 0 }
  const { signal } = controller
  const listeners = new Set<unknown>()
  const add = signal.addEventListener.bind(signal)
  const remove = signal.removeEventListener.bind(signal)
  signal.addEventListener = (...args: Parameters<typeof add>): void => {
    listeners.add(args[1])
    watched.listenerCount = listeners.size
    add(...args)
  }
  signal.removeEventListener = (...args: Parameters<typeof remove>): void => {
    listeners.delete(args[1])
    watched.listenerCount = listeners.size
    remove(...args)
  }
  return watched
}
