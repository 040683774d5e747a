/** A signal that is aborted when one of several is, and what removes its listeners from them. */
export interface JoinedSignals {
  readonly signal: AbortSignal
  stop(): void
}

/** Not `AbortSignal.any`: Vercel's edge-runtime 4 does not have it. */
export function joinSignals(signals: readonly AbortSignal[]): JoinedSignals {
  const controller = new AbortController()
  const abort = (): void => controller.abort(signals.find(({ aborted }) => aborted)?.reason)
  for (const signal of signals) signal.addEventListener('abort', abort)
  if (signals.some(({ aborted }) => aborted)) abort()
  const stop = (): void => {
    for (const signal of signals) signal.removeEventListener('abort', abort)
  }
  return { signal: controller.signal, stop }
}
