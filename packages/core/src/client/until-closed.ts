import type { Http } from '../http/http.ts'
import type { CallOptions } from '../options.ts'

/**
 * Waits for the response that closes the stream of a call, with the limits of the call, which has its result already. If a limit ends
 * the wait, the stream is closed in the background. Never rejects.
 */
export async function untilClosed(
  closing: Promise<void>,
  http: Http,
  { signal, timeoutMs }: CallOptions,
): Promise<void> {
  try {
    await http.lifetime.until(() => closing, { deadline: http.deadline(timeoutMs), signal })
  } catch {
    // aborted, or the server does not respond
  }
}
