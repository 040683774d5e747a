/** A signal that aborts as soon as any of several signals does, and a function that removes the listeners from them. */
export interface JoinedSignals {
  readonly signal: AbortSignal
  stop(): void
}

/** Joins signals. Replaces `AbortSignal.any`, which Vercel's edge-runtime 4 lacks. */
export function joinSignals(signals: readonly AbortSignal[]): JoinedSignals {
  const controller = new AbortController()
  const abort = (): void => controller.abort(signals.find(({ aborted }) => aborted)?.reason)
  for (const signal of signals) {
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
  }
  const stop = (): void => {
    for (const signal of signals) signal.removeEventListener('abort', abort)
  }
  return { signal: controller.signal, stop }
}

/** Calls `run` with a signal that aborts as soon as one of two does. */
export async function withSignals<T>(
  first: AbortSignal | undefined,
  second: AbortSignal | undefined,
  run: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  if (!first || !second) return await run(first ?? second)
  const joined = joinSignals([first, second])
  try {
    return await run(joined.signal)
  } finally {
    joined.stop()
  }
}
