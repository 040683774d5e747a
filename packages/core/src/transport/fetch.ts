import { closedError, networkError, timeoutError } from './failure.ts'
import type { Fetch, Transport, TransportBody, TransportRequest, TransportResponse } from './transport.ts'

/** Transport over `fetch`: the platform's, or one given by the user. */
export class FetchTransport implements Transport {
  readonly fetch: Fetch
  /** What is under way; null when the transport is closed. */
  running: Set<Exchange> | null = new Set()

  constructor(fetch: Fetch) {
    this.fetch = fetch
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    const exchange = new Exchange(this, request)
    try {
      return await exchange.wait(async () => {
        const response = await exchange.fetch()
        return { ...headOf(response), text: await response.text() }
      })
    } finally {
      exchange.end()
    }
  }

  async close(): Promise<void> {
    const { running } = this
    this.running = null
    for (const exchange of running ?? []) exchange.abort(closedError())
  }
}

export function createTransport(): Transport {
  return new FetchTransport((url, init) => fetch(url, init))
}

type Response = Awaited<ReturnType<Fetch>>

const headOf = ({ status, headers }: Response): Pick<TransportResponse, 'status' | 'retryAfter'> => ({
  status,
  retryAfter: headers?.get('retry-after'),
})

/**
 * One request and its answer. It ends with the caller's signal, with the transport and when it takes too long, whether the
 * implementation of `fetch` listens to its signal or not; and whatever that makes of an abort, the reason is ours.
 */
class Exchange {
  readonly #transport: FetchTransport
  readonly #request: TransportRequest
  readonly #controller = new AbortController()
  readonly #onAbort = (): void => this.abort(this.#request.signal?.reason)
  #giveUp: (reason: unknown) => void = () => {}

  constructor(transport: FetchTransport, request: TransportRequest) {
    if (!transport.running) throw closedError()
    request.signal?.throwIfAborted()
    this.#transport = transport
    this.#request = request
    request.signal?.addEventListener('abort', this.#onAbort)
    transport.running.add(this)
  }

  async fetch(): Promise<Response> {
    const { origin, path, method, headers, body } = this.#request
    return await this.#transport.fetch(origin + path, {
      method,
      headers: { ...headers },
      ...(body === null ? {} : { body }),
      signal: this.#controller.signal,
      redirect: 'manual', // the token goes to the configured host and nowhere else
    })
  }

  /** Waits for a part of the work, for `timeoutMs` at most. */
  async wait<T>(work: () => Promise<T>): Promise<T> {
    const { timeoutMs, origin } = this.#request
    const { signal } = this.#controller
    signal.throwIfAborted()
    const late = (): void => this.abort(timeoutError(timeoutMs, origin, true))
    const timer = timeoutMs === Infinity ? undefined : setTimeout(late, timeoutMs)
    try {
      return await new Promise<T>((resolve, reject) => {
        this.#giveUp = reject
        work().then(resolve, reject)
      })
    } catch (error) {
      throw signal.aborted ? signal.reason : networkError(error, origin, true)
    } finally {
      clearTimeout(timer)
    }
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason)
    this.#giveUp(reason)
  }

  end(): void {
    this.#request.signal?.removeEventListener('abort', this.#onAbort)
    this.#transport.running?.delete(this)
  }
}

/**
 * Sends a request and gives its answer as it comes; `timeoutMs` is the longest silence. Not a method, so that programs
 * without cursors do not carry it.
 */
export async function openBody(transport: Transport, request: TransportRequest): Promise<TransportBody> {
  const exchange = new Exchange(transport as FetchTransport, request)
  try {
    const response = await exchange.wait(() => exchange.fetch())
    return { ...headOf(response), parts: readParts(response.body, exchange) }
  } catch (error) {
    exchange.end()
    throw error
  }
}

async function* readParts(
  body: ReadableStream<Uint8Array> | null | undefined,
  exchange: Exchange,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = body?.getReader()
  try {
    for (;;) {
      const part = reader && (await exchange.wait(() => reader.read()))
      if (!part || part.done) return
      yield part.value
    }
  } finally {
    const cancelled = reader?.cancel().catch(() => {})
    await exchange.wait(async () => cancelled).catch(() => {})
    exchange.end()
  }
}
