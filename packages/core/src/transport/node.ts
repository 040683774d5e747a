import type { Dispatcher, Pool } from 'undici'
import { inNextTurn } from '#next-turn'
import type * as UndiciPool from '#undici-pool'
import type { TransportError } from '../base/errors.ts'
import { KEEP_ALIVE_MS } from '../base/limits.ts'
import { closedError, networkError } from './failure.ts'
import { openBody as openFetchBody } from './fetch.ts'
import type {
  Exchange,
  Transport,
  TransportBody,
  TransportHead,
  TransportRequest,
  TransportResponse,
} from './transport.ts'

// thrown at import: undici would fail with the first request, without a reason
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 19))
  throw new Error(`@batonsql/core requires node 22.19 or newer, but this is node ${process.versions.node}`)

// Only undici's pool, because all of undici takes three times as long to load. Loaded by the first request, because even the pool
// takes longer to load than core.
let loading: Promise<typeof UndiciPool> | undefined

/**
 * The error that connections are destroyed with. No caller sees it: the client rejects its calls first. It is shared because Node
 * reads its stack, which takes a millisecond where a test runner maps stacks to sources.
 */
const CLOSED = closedError(true)

/** The connections to one server. */
interface Connections {
  readonly pool: Pool
  /**
   * When a request last began, or ended while the connections were fresh, by the wall clock, which advances while the process or machine
   * is frozen.
   */
  usedAt: number
  /** Whether a response ended in this turn of the event loop: undici reuses its connection from the next turn on. */
  isBeingFreed: boolean
}

/** A transport over undici's dispatcher, which avoids the streams of its `request`. */
class NodeTransport implements Transport {
  readonly #connections = new Map<string, Connections>()
  /** Pools that receive no more requests and wait for their responses. */
  readonly #retired = new Set<Pool>()
  #isClosed = false

  request(request: TransportRequest): Exchange {
    return this.send(new TextExchange(request))
  }

  /** Sends a request, also for `openBody`. */
  send<T extends TransportHead>(exchange: NodeExchange<T>): Exchange<T> {
    const { origin } = exchange.request
    const connections = this.#connections.get(origin)
    if (connections && isFresh(connections) && !this.#isClosed) {
      // the client may be closed before the next turn
      if (connections.isBeingFreed) inNextTurn(() => this.send(exchange))
      else exchange.dispatch(connections)
    } else this.#open(origin).then((connections) => exchange.dispatch(connections), exchange.reject)
    return exchange
  }

  /** Returns the connections to a server, created when first needed. @throws TransportError after `close` */
  async #open(origin: string): Promise<Connections> {
    loading ??= import('#undici-pool')
    const { Pool } = await loading
    if (this.#isClosed) throw closedError()
    const existing = this.#connections.get(origin)
    if (existing && isFresh(existing)) return existing
    if (existing) this.#retire(existing.pool)
    // The caller limits the number and duration of requests. Each connection carries one at a time, so that a slow request does
    // not delay another.
    const pool = new Pool(origin, {
      pipelining: 1,
      allowH2: false,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
    })
    const connections = { pool, usedAt: Date.now(), isBeingFreed: false }
    this.#connections.set(origin, connections)
    return connections
  }

  #retire(pool: Pool): void {
    this.#retired.add(pool)
    const remove = (): unknown => this.#retired.delete(pool)
    pool.close().then(remove, remove)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const pools = [...this.#retired, ...Array.from(this.#connections.values(), ({ pool }) => pool)]
    await Promise.all(pools.map((pool) => pool.destroy(CLOSED)))
  }
}

/**
 * Whether the connections may still be open. Their own timers close them after this time, but not while the process is frozen,
 * as serverless functions are between calls; a gateway may then silently drop them. undici also checks a clock, but that clock
 * stops while the machine sleeps.
 */
function isFresh({ usedAt }: Connections): boolean {
  const idleMs = Date.now() - usedAt
  return idleMs >= 0 && idleMs < KEEP_ALIVE_MS
}

/** Returns the error of a request without a response, with a hint if the port does not use TLS. */
function requestError(error: unknown, origin: string, isSent: boolean): TransportError {
  const { code } = error as { readonly code?: unknown }
  const isPlain = /^(EPROTO|ERR_SSL_(WRONG_VERSION|PACKET_LENGTH))/.test(String(code))
  const remedy = 'the port does not use TLS: use http://… or libsql://…?tls=0'
  return networkError(error, origin, isSent, isPlain ? remedy : undefined)
}

/** A request and its response; subclasses handle the body. */
abstract class NodeExchange<T extends TransportHead> implements Exchange<T>, Dispatcher.DispatchHandler {
  readonly request: TransportRequest
  readonly response: Promise<T>
  resolve!: (response: T) => void
  reject!: (error: unknown) => void
  #controller: Dispatcher.DispatchController | undefined
  #connections: Connections | undefined
  #isAborted = false

  constructor(request: TransportRequest) {
    this.request = request
    this.response = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  get isSent(): boolean {
    return this.#controller !== undefined
  }

  dispatch(connections: Connections): void {
    if (this.#isAborted) return
    const { method, path, headers, body } = this.request
    this.#connections = connections
    connections.usedAt = Date.now()
    connections.pool.dispatch({ method, path, headers, body }, this)
  }

  /** Called at the end of the response: its connection can soon be reused. */
  onEnd(): void {
    const connections = this.#connections
    if (!connections) return
    // a slow response may mean that the process was frozen and its connections were dropped
    if (isFresh(connections)) connections.usedAt = Date.now()
    connections.isBeingFreed = true
    inNextTurn(() => {
      connections.isBeingFreed = false
    })
  }

  abort(): void {
    this.#isAborted = true
    const reason = new Error('aborted')
    if (this.#controller) this.#controller.abort(reason)
    else this.reject(networkError(reason, this.request.origin, false))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // aborted while it waited for a connection: it must not be sent
    if (this.#isAborted) controller.abort(new Error('aborted'))
    else this.#controller = controller
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.reject(requestError(error, this.request.origin, this.isSent))
  }

  abstract onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void
  abstract onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void
  abstract onResponseEnd(): void
}

/** A response that is read as a whole. */
class TextExchange extends NodeExchange<TransportResponse> {
  #status = 0
  #retryAfter: string | undefined
  #chunks: Buffer[] = []

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    // the head of an informational response, such as early hints from a proxy, is replaced by the final one
    this.#status = status
    this.#retryAfter = headers['retry-after']?.toString()
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    this.onEnd()
    const chunks = this.#chunks
    const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)
    this.resolve({ status: this.#status, text: body.toString(), retryAfter: this.#retryAfter })
  }
}

/** Number of bytes of a body that are buffered before reading from the connection pauses. */
const READ_AHEAD_BYTES = 65_536

/** A response whose body is streamed. */
class BodyExchange extends NodeExchange<TransportBody> {
  #hasBegun = false
  #waiting: Buffer[] = []
  #waitingBytes = 0
  #hasEnded = false
  #error: unknown
  #wake = (): void => {}

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    // informational, as in `TextExchange`
    if (status < 200) return
    this.#hasBegun = true
    this.resolve({
      status,
      retryAfter: headers['retry-after']?.toString(),
      contentType: headers['content-type']?.toString() ?? null,
      parts: this.#parts(controller),
    })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#waiting.push(chunk)
    this.#waitingBytes += chunk.length
    if (this.#waitingBytes >= READ_AHEAD_BYTES) controller.pause()
    this.#wake()
  }

  onResponseEnd(): void {
    this.onEnd()
    this.#hasEnded = true
    this.#wake()
  }

  override onResponseError(controller: unknown, error: Error): void {
    if (!this.#hasBegun) return super.onResponseError(controller, error)
    this.#error = networkError(error, this.request.origin, true)
    this.onResponseEnd()
  }

  async *#parts(controller: Dispatcher.DispatchController): AsyncGenerator<Buffer, void, undefined> {
    try {
      for (;;) {
        const part = this.#waiting.shift()
        if (part) {
          this.#waitingBytes -= part.length
          if (controller.paused && this.#waitingBytes < READ_AHEAD_BYTES) controller.resume()
          yield part
        } else if (!this.#hasEnded) await new Promise<void>((resolve) => (this.#wake = resolve))
        else if (this.#error === undefined) return
        else throw this.#error
      }
    } finally {
      if (!this.#hasEnded) this.abort()
    }
  }
}

/** Sends a request whose response is streamed. Not a method, so that bundles of programs without cursors omit it. */
export function openBody(transport: Transport, request: TransportRequest): Exchange<TransportBody> {
  // the client was created with the option `fetch`
  if (!(transport instanceof NodeTransport)) return openFetchBody(transport, request)
  return transport.send(new BodyExchange(request))
}

export function createTransport(): Transport {
  return new NodeTransport()
}
