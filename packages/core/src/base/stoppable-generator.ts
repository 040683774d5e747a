import { joinSignals } from './join-signals.ts'

/**
 * Returns a generator whose `return()` and `throw()` end a pending `next()`. An ordinary generator, and therefore a canceled
 * ReadableStream, first waits for it, and it may never settle.
 * @param run returns the items, until its signal is aborted; the abort error caused by `return()` or `throw()` is ignored
 * @param ownSignal the caller's signal, which aborts the same signal
 */
export function stoppableGenerator<T>(
  run: (signal: AbortSignal) => AsyncGenerator<T, void, undefined>,
  ownSignal: AbortSignal | undefined,
): AsyncGenerator<T, void, undefined> {
  const stopController = new AbortController()
  const stopSignal = stopController.signal
  const items = readItems()
  const [end, fail] = [items.return.bind(items), items.throw.bind(items)]
  return Object.assign(items, {
    return: (value: undefined) => {
      stopController.abort()
      return end(value)
    },
    throw: (error: unknown) => {
      stopController.abort()
      return fail(error)
    },
  })

  async function* readItems(): AsyncGenerator<T, void, undefined> {
    const joinedSignals = joinSignals(ownSignal ? [stopSignal, ownSignal] : [stopSignal])
    try {
      yield* run(joinedSignals.signal)
    } catch (error) {
      if (!stopSignal.aborted || error !== stopSignal.reason) throw error
    } finally {
      joinedSignals.stop()
    }
  }
}
