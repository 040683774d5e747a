import type * as Undici from 'undici'
import type { Dispatcher, Pool } from 'undici'
import type { TransportError } from '../errors.ts'
import { cutError, networkError } from './failure.ts'
import { openBody as openFetchBody } from './fetch.ts'
import { refusalOf } from './node-version.ts'
import type { Exchange, Transport, TransportBody, TransportRequest, TransportResponse } from './transport.ts'

// said here, where an import can still say it: undici would fail with the first request, and not say why
const refusal = refusalOf(process.versions.node)
if (refusal !== null) throw new Error(refusal)

// Loaded with the first request: importing it costs more than all of core.
let undici: Promise<typeof Undici> | undefined

/** Transport over undici, without the streams of its `request`: the answer's parts are collected as they come. */
class NodeTransport implements Transport {
  readonly #pools = new Map<string, Pool>()
  #isClosed = false

  request(request: TransportRequest): Exchange {
    const exchange = new NodeExchange(request)
    const pool = this.#pools.get(request.origin)
    if (pool) exchange.dispatch(pool)
    else this.poolOf(request.origin).then((opened) => exchange.dispatch(opened), exchange.reject)
    return exchange
  }

  /** Connections to a server, made when they are first needed. @throws TransportError once closed */
  async poolOf(origin: string): Promise<Pool> {
    undici ??= import('#undici')
    const { Pool } = await undici
    if (this.#isClosed) throw cutError('not_applied')
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
    this.#isClosed = true
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy(cutError('unknown'))))
  }
}

/** The error of a request that got no answer, with what to do when that was no TLS. */
function requestError(error: unknown, origin: string, isSent: boolean): TransportError {
  const { code } = error as { readonly code?: unknown }
  const isPlain = /^(EPROTO|ERR_SSL_(WRONG_VERSION|PACKET_LENGTH))/.test(String(code))
  const remedy = ' (a server without TLS? use http://… or libsql://…?tls=0)'
  return networkError(error, origin, isSent, isPlain ? remedy : undefined)
}

/** One request and its answer. */
class NodeExchange implements Exchange, Dispatcher.DispatchHandler {
  readonly answer: Promise<TransportResponse>
  resolve!: (response: TransportResponse) => void
  reject!: (error: unknown) => void
  readonly #request: TransportRequest
  #controller: Dispatcher.DispatchController | undefined
  #isAborted = false
  #status = 0
  #retryAfter: string | undefined
  #chunks: Buffer[] = []

  constructor(request: TransportRequest) {
    this.#request = request
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  get isSent(): boolean {
    return this.#controller !== undefined
  }

  dispatch(pool: Pool): void {
    if (this.#isAborted) return
    const { method, path, headers, body } = this.#request
    try {
      pool.dispatch({ method, path, headers, body }, this)
    } catch (error) {
      this.reject(error)
    }
  }

  abort(): void {
    this.#isAborted = true
    this.#controller?.abort(new Error('given up'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // given up while it waited for a connection: it must not leave any more
    if (this.#isAborted) controller.abort(new Error('given up'))
    else this.#controller = controller
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
    const chunks = this.#chunks
    const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)
    this.resolve({ status: this.#status, text: body.toString(), retryAfter: this.#retryAfter })
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const { origin } = this.#request
    this.reject(error instanceof TypeError ? error : requestError(error, origin, this.isSent))
  }
}

/** Sends a request whose answer is read as it comes. Not a method, so that programs without cursors do not carry it. */
export function openBody(transport: Transport, request: TransportRequest): Exchange<TransportBody> {
  // a fetch of the user's own
  if (!(transport instanceof NodeTransport)) return openFetchBody(transport, request)
  const { method, origin, path, headers, body } = request
  const controller = new AbortController()
  let isSent = false
  // asked for when there is a connection to send it over
  const bytes = async function* (): AsyncGenerator<Buffer> {
    isSent = true
    yield Buffer.from(body ?? '')
  }
  const open = async (): Promise<TransportBody> => {
    try {
      const pool = await transport.poolOf(origin)
      // for cursors alone, and not cheap
      const { Readable } = await import('node:stream')
      const response = await pool.request({
        method,
        path,
        headers: { ...headers, 'content-length': String(Buffer.byteLength(body ?? '')) },
        body: Readable.from(bytes()),
        signal: controller.signal,
      })
      const retryAfter = response.headers['retry-after'] as string | undefined
      return { status: response.statusCode, retryAfter, parts: readParts(response.body, origin) }
    } catch (error) {
      throw requestError(error, origin, isSent)
    }
  }
  const answer = open()
  return {
    answer,
    get isSent() {
      return isSent
    },
    abort: () => controller.abort(),
  }
}

async function* readParts(
  body: AsyncIterable<Uint8Array>,
  origin: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* body
  } catch (error) {
    throw networkError(error, origin, true)
  }
}

export function createTransport(): Transport {
  return new NodeTransport()
}
