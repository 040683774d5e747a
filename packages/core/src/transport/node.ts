import type * as Undici from 'undici'
import type { Dispatcher, Pool } from 'undici'
import { closedError, networkError, timeoutError } from './failure.ts'
import { openBody as openFetchBody } from './fetch.ts'
import type { Transport, TransportBody, TransportRequest, TransportResponse } from './transport.ts'

// Loaded with the first request: importing it costs more than all of core.
let undici: Promise<typeof Undici> | undefined

/** Transport over undici, without the streams of its `request`: the answer's parts are collected as they come. */
class NodeTransport implements Transport {
  readonly #pools = new Map<string, Pool>()
  #closed = false

  async request(request: TransportRequest): Promise<TransportResponse> {
    if (this.#closed) throw closedError()
    request.signal?.throwIfAborted()
    const pool = this.#pools.get(request.origin) ?? (await this.#openPool(request.origin))
    // who aborts meanwhile is not heard by the exchange, which is made now
    request.signal?.throwIfAborted()
    return await new Promise((resolve, reject) => {
      pool.dispatch(
        { method: request.method, path: request.path, headers: request.headers, body: request.body },
        new Exchange(request, resolve, reject),
      )
    })
  }

  /** Connections to a server, made when they are first needed. */
  async poolOf(origin: string): Promise<Pool> {
    if (this.#closed) throw closedError()
    return this.#pools.get(origin) ?? (await this.#openPool(origin))
  }

  async #openPool(origin: string): Promise<Pool> {
    undici ??= import('undici')
    const { Pool } = await undici
    if (this.#closed) throw closedError()
    let pool = this.#pools.get(origin)
    if (pool === undefined) {
      // How many requests there are, and for how long, is for the caller to say; one at a time on a connection, so that a
      // slow one holds up no other.
      pool = new Pool(origin, {
        pipelining: 1,
        allowH2: false,
        headersTimeout: 0,
        bodyTimeout: 0,
      })
      this.#pools.set(origin, pool)
    }
    return pool
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy(closedError())))
  }
}

/**
 * Sends a request and gives its answer as it comes; `timeoutMs` is the longest silence. Not a method, so that programs
 * without cursors do not carry it.
 */
export async function openBody(transport: Transport, request: TransportRequest): Promise<TransportBody> {
  // a fetch of the user's own
  if (!(transport instanceof NodeTransport)) return openFetchBody(transport, request)
  const { method, origin, path, headers, body, timeoutMs, signal } = request
  signal?.throwIfAborted()
  const pool = await transport.poolOf(origin)
  const silence = timeoutMs === Infinity ? 0 : timeoutMs
  const reasonFor = (error: unknown): unknown => {
    if (signal?.aborted) return signal.reason
    const isTimeout = /^UND_ERR_(HEADERS|BODY)_TIMEOUT$/.test((error as { code?: string }).code ?? '')
    return isTimeout ? timeoutError(timeoutMs, origin, true) : networkError(error, origin, true)
  }
  try {
    const options = { method, path, headers, body, headersTimeout: silence, bodyTimeout: silence }
    const response = await pool.request(signal ? { ...options, signal } : options)
    const retryAfter = response.headers['retry-after'] as string | undefined
    return { status: response.statusCode, retryAfter, parts: readParts(response.body, reasonFor) }
  } catch (error) {
    throw reasonFor(error)
  }
}

async function* readParts(
  body: AsyncIterable<Uint8Array>,
  reasonFor: (error: unknown) => unknown,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* body
  } catch (error) {
    throw reasonFor(error)
  }
}

/** One request and its answer. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #request: TransportRequest
  readonly #resolve: (response: TransportResponse) => void
  readonly #reject: (error: unknown) => void
  readonly #timer: NodeJS.Timeout | undefined
  #controller: Dispatcher.DispatchController | undefined
  #status = 0
  #retryAfter: string | undefined
  #chunks: Buffer[] = []
  #failure: unknown

  constructor(
    request: TransportRequest,
    resolve: (response: TransportResponse) => void,
    reject: (error: unknown) => void,
  ) {
    this.#request = request
    this.#resolve = resolve
    this.#reject = reject
    const { timeoutMs, origin, signal } = request
    if (timeoutMs !== Infinity) {
      this.#timer = setTimeout(
        () => this.#fail(timeoutError(timeoutMs, origin, this.#controller !== undefined)),
        timeoutMs,
      )
    }
    signal?.addEventListener('abort', this.#onAbort)
  }

  readonly #onAbort = (): void => this.#fail(this.#request.signal?.reason)

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    // given up while it waited for a connection: it must not leave any more
    if (this.#failure !== undefined) controller.abort(this.#failure as Error)
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#status = status
    this.#retryAfter = headers['retry-after'] as string | undefined
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    this.#settle()
    const chunks = this.#chunks
    const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)
    this.#resolve({ status: this.#status, text: body.toString(), retryAfter: this.#retryAfter })
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.#settle()
    if (this.#failure !== undefined) return
    this.#reject(
      error instanceof TypeError
        ? error
        : networkError(error, this.#request.origin, this.#controller !== undefined),
    )
  }

  /** Gives up: the caller hears of it now, the connection when it can. */
  #fail(reason: unknown): void {
    this.#settle()
    this.#failure = reason ?? new Error('aborted')
    this.#reject(this.#failure)
    this.#controller?.abort(this.#failure as Error)
  }

  #settle(): void {
    clearTimeout(this.#timer)
    this.#request.signal?.removeEventListener('abort', this.#onAbort)
  }
}

export function createTransport(): Transport {
  return new NodeTransport()
}
