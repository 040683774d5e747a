/** A signal that is aborted when one of several is. Not every runtime has `AbortSignal.any`: Vercel's edge-runtime 4 has not. */
export function anySignal(signals: AbortSignal[]): AbortSignal {
  if ('any' in AbortSignal) return AbortSignal.any(signals)
  const controller = new AbortController()
  for (const signal of signals) {
    const abort = (): void => controller.abort(signal.reason)
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { signal: controller.signal })
  }
  return controller.signal
}
