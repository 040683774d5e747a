import { ProtocolError } from '../base/errors.ts'
import { networkError } from './failure.ts'
import type {
  Exchange,
  Fetch,
  Transport,
  TransportBody,
  TransportHead,
  TransportRequest,
} from './transport.ts'

type Response = Awaited<ReturnType<Fetch>>

/** A transport over `fetch`: the platform's, or the user's. */
export class FetchTransport implements Transport {
  readonly fetch: Fetch

  constructor(fetch: Fetch) {
    this.fetch = fetch
  }

  request(request: TransportRequest): Exchange {
    return exchange(this.fetch, request, async (head, response) => {
      const text: unknown = await response.text()
      if (typeof text !== 'string') throw new ProtocolError('the text of the response is not a string')
      return { ...head, text }
    })
  }

  async close(): Promise<void> {}
}

export function createTransport(): Transport {
  return new FetchTransport((url, init) => fetch(url, init))
}

/** Sends a request, which counts as sent, because `fetch` does not report that. An abort rejects even if `fetch` ignores the signal. */
function exchange<T extends TransportHead>(
  fetch: Fetch,
  { origin, path, method, headers, body }: TransportRequest,
  read: (head: TransportHead, response: Response, signal: AbortSignal) => T | Promise<T>,
): Exchange<T> {
  const controller = new AbortController()
  const { signal } = controller
  let abort = (): void => {}
  const result = new Promise<T>((resolve, reject) => {
    const fail = (error: unknown): void =>
      reject(error instanceof ProtocolError ? error : networkError(error, origin, true))
    abort = () => {
      controller.abort()
      fail(signal.reason)
    }
    const init = {
      method,
      headers: { ...headers },
      ...(body === null ? {} : { body }),
      signal,
      redirect: 'manual', // the token must be sent only to the configured host
    } as const
    new Promise<Response>((resolveResponse) => resolveResponse(fetch(origin + path, init)))
      .then((response) =>
        read({ status: response.status, retryAfter: response.headers?.get('retry-after') }, response, signal),
      )
      .then(resolve, fail)
  })
  return { response: result, isSent: true, abort }
}

/** Settles as `work` does, or rejects if the signal is aborted first. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason)
    const stop = (): void => signal.removeEventListener('abort', abort)
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
    work.then(resolve, reject).finally(stop)
  })
}

/** Sends a request whose response is streamed. Not a method, so that bundles of programs without cursors omit it. */
export function openBody(transport: Transport, request: TransportRequest): Exchange<TransportBody> {
  return exchange((transport as FetchTransport).fetch, request, (head, response, signal) => {
    // a `fetch` that ignores the signal has a response that nothing reads
    if (signal.aborted) response.body?.cancel().catch(() => {})
    const contentType = response.headers?.get('content-type')
    return { ...head, contentType, parts: readParts(response.body, request.origin, signal) }
  })
}

async function* readParts(
  body: ReadableStream<Uint8Array> | null | undefined,
  origin: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = body?.getReader()
  const cancel = (): void => void reader?.cancel().catch(() => {})
  signal.addEventListener('abort', cancel)
  try {
    for (;;) {
      const part = reader && (await untilAborted(reader.read(), signal))
      if (!part || part.done) return
      yield part.value
    }
  } catch (error) {
    throw networkError(error, origin, true)
  } finally {
    signal.removeEventListener('abort', cancel)
    cancel()
  }
}
