import { closedError, networkError, timeoutError } from './failure.ts'
import type { Fetch, Transport, TransportBody, TransportRequest, TransportResponse } from './transport.ts'

/** Transport over `fetch`: the platform's, or one given by the user. */
export class FetchTransport implements Transport {
  readonly fetch: Fetch
  readonly #running = new Set<AbortController>()
  #closed = false

  constructor(fetch: Fetch) {
    this.fetch = fetch
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    if (this.#closed) throw closedError()
    const { origin, timeoutMs, signal, method, headers, body } = request
    signal?.throwIfAborted()
    const controller = new AbortController()
    const abort = (): void => controller.abort(signal?.reason)
    const timer =
      timeoutMs === Infinity
        ? undefined
        : setTimeout(() => controller.abort(timeoutError(timeoutMs, origin, true)), timeoutMs)
    signal?.addEventListener('abort', abort)
    this.#running.add(controller)
    try {
      const response = await this.fetch(origin + request.path, {
        method,
        headers: { ...headers },
        ...(body === null ? {} : { body }),
        signal: controller.signal,
        redirect: 'manual', // the token goes to the configured host and nowhere else
      })
      const retryAfter = response.headers?.get('retry-after')
      return { status: response.status, text: await response.text(), retryAfter }
    } catch (error) {
      // whatever the implementation makes of an abort, the reason is ours
      throw controller.signal.aborted ? controller.signal.reason : networkError(error, origin, true)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      this.#running.delete(controller)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const controller of this.#running) controller.abort(closedError())
  }
}

export function createTransport(): Transport {
  return new FetchTransport((url, init) => fetch(url, init))
}

/**
 * Sends a request and gives its answer as it comes; `timeoutMs` is the longest silence. Not a method, so that programs
 * without cursors do not carry it.
 */
export async function openBody(transport: Transport, request: TransportRequest): Promise<TransportBody> {
  const { origin, path, method, headers, body, timeoutMs, signal } = request
  signal?.throwIfAborted()
  const controller = new AbortController()
  const abort = (): void => controller.abort(signal?.reason)
  signal?.addEventListener('abort', abort)
  let timer: ReturnType<typeof setTimeout> | undefined
  const watch: Watch = {
    progress() {
      clearTimeout(timer)
      if (timeoutMs === Infinity) return
      timer = setTimeout(() => controller.abort(timeoutError(timeoutMs, origin, true)), timeoutMs)
    },
    end() {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    },
    reasonFor: (error) =>
      controller.signal.aborted ? controller.signal.reason : networkError(error, origin, true),
  }
  watch.progress()
  try {
    const response = await (transport as FetchTransport).fetch(origin + path, {
      method,
      headers: { ...headers },
      ...(body === null ? {} : { body }),
      signal: controller.signal,
      redirect: 'manual',
    })
    const retryAfter = response.headers?.get('retry-after')
    return { status: response.status, retryAfter, parts: readParts(response.body, watch) }
  } catch (error) {
    watch.end()
    throw watch.reasonFor(error)
  }
}

interface Watch {
  progress(): void
  end(): void
  /** Whatever the implementation makes of an abort, the reason is ours. */
  reasonFor(error: unknown): unknown
}

async function* readParts(
  body: ReadableStream<Uint8Array> | null | undefined,
  watch: Watch,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = body?.getReader()
  try {
    for (;;) {
      const part = await reader?.read()
      if (!part || part.done) return
      watch.progress()
      yield part.value
    }
  } catch (error) {
    throw watch.reasonFor(error)
  } finally {
    watch.end()
    await reader?.cancel().catch(() => {})
  }
}
