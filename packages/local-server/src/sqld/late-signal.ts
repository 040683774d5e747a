/** Aborts some time after another one: what was left behind may still come to its end. */
export function lateSignal(signal: AbortSignal, delayMs: number): AbortSignal {
  const late = new AbortController()
  const abort = (): void => void setTimeout(() => late.abort(signal.reason), delayMs).unref()
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  return late.signal
}
