import { once } from 'node:events'
import http2 from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import type { ReplicaConditions } from '@batonsql/server-common/backend'
import { DelayedStream } from './delayed-stream.ts'
import { PRIMARY_NAME, type ReplicationKeys } from './replication-keys.ts'

/** Matches the methods that transfer the log of the primary. The others open the log, or forward statements. */
const REPLICATION = /^\/wal_log\.ReplicationLog\/(?:LogEntries|BatchLogEntries|Snapshot)$/
/** Headers of HTTP/2 itself, which each connection sets separately. */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  ':status',
  ':scheme',
  ':authority',
  'connection',
  'te',
])
/** The gRPC status of a call that the primary cannot receive. With UNAVAILABLE the replica would retry forever. */
const INTERNAL = '13'

export interface GrpcProxyOptions {
  /** Returns the gRPC port of the primary, which is started if necessary. */
  readonly primaryPort: () => Promise<number>
  /** Shared by both sides; connections without them are rejected. */
  readonly keys: ReplicationKeys
  /** Sets the delay of the log, with `location`. */
  readonly conditions: ReplicaConditions
  readonly location: string
}

/**
 * Connects a replica to the gRPC port of its primary. Delays only the log; forwarded statements pass at once. Its address stays
 * the same when the primary is restarted on another port, and a forwarded statement fails if the primary cannot be started,
 * instead of waiting forever.
 */
export class GrpcProxy implements AsyncDisposable {
  readonly #options: GrpcProxyOptions
  readonly #server: http2.Http2SecureServer
  /** Its connections. One in the middle of its TLS handshake has no session yet. */
  readonly #sockets = new Set<Socket>()
  #upstream: { readonly port: number; readonly session: http2.ClientHttp2Session } | null = null

  private constructor(options: GrpcProxyOptions) {
    this.#options = options
    const { ca, cert, key } = options.keys
    this.#server = http2.createSecureServer({ ca, cert, key, requestCert: true, rejectUnauthorized: true })
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    this.#server.on('session', (session) => session.on('error', () => {}))
    this.#server.on('stream', (stream, headers) => void this.#forward(stream, headers))
  }

  static async start(options: GrpcProxyOptions): Promise<GrpcProxy> {
    const proxy = new GrpcProxy(options)
    await once(proxy.#server.listen(0, '127.0.0.1'), 'listening')
    // the replica connects again if a connection cannot be accepted, for example because too many files are open
    proxy.#server.on('error', () => {})
    proxy.#server.unref()
    return proxy
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.#sockets) socket.destroy()
    this.#upstream?.session.destroy()
    await closed
  }

  async #forward(from: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders): Promise<void> {
    from.on('error', () => {})
    try {
      const session = await this.#connect()
      // its `close` would not be emitted again
      if (from.closed) return
      const to = session.request({ ...forwardedHeaders(headers), te: 'trailers' }, { endStream: false })
      to.on('error', () => fail(from))
      to.once('close', () => {
        if (!from.headersSent) fail(from)
      })
      from.once('close', () => to.close(http2.constants.NGHTTP2_CANCEL))
      from.pipe(to)
      const { conditions, location } = this.#options
      const delay = REPLICATION.test(String(headers[':path']))
        ? () => new DelayedStream(conditions, location)
        : null
      to.once('response', (response, flags) => {
        const isHeadersOnly = (flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0
        respond(from, to, { response, isHeadersOnly, delay })
      })
    } catch {
      fail(from)
    }
  }

  async #connect(): Promise<http2.ClientHttp2Session> {
    const port = await this.#options.primaryPort()
    const existing = this.#upstream
    if (
      existing !== null &&
      existing.port === port &&
      !existing.session.closed &&
      !existing.session.destroyed
    )
      return existing.session
    existing?.session.destroy()
    const { ca, cert, key } = this.#options.keys
    const session = http2.connect(`https://127.0.0.1:${port}`, { ca, cert, key, servername: PRIMARY_NAME })
    session.on('error', () => {})
    session.unref()
    this.#upstream = { port, session }
    return session
  }
}

interface ProxiedResponse {
  readonly response: http2.IncomingHttpHeaders
  /** Whether the response has no body. */
  readonly isHeadersOnly: boolean
  /** Null to pass it on at once. */
  readonly delay: (() => DelayedStream) | null
}

function respond(
  from: http2.ServerHttp2Stream,
  to: http2.ClientHttp2Stream,
  { response, isHeadersOnly, delay }: ProxiedResponse,
): void {
  if (from.closed) return
  const status = response[':status'] ?? 200
  from.respond(
    { ':status': status, ...forwardedHeaders(response) },
    { endStream: isHeadersOnly, waitForTrailers: !isHeadersOnly },
  )
  if (isHeadersOnly) return
  let trailers: http2.IncomingHttpHeaders | null = null
  to.once('trailers', (received) => {
    trailers = received
  })
  from.once('wantTrailers', () => from.sendTrailers(forwardedHeaders(trailers ?? {})))
  // an interrupted call must not look complete, or the replica would report success for the statement that it forwarded
  const end = (): void => void (trailers === null ? fail(from) : from.end())
  to.once('close', () => {
    if (trailers === null) fail(from)
  })
  const source = delay === null ? to : to.pipe(delay())
  from.once('close', () => source.destroy())
  source.once('end', end).pipe(from, { end: false })
}

/** Rejects a call, or resets it if its response has begun. */
function fail(stream: http2.ServerHttp2Stream): void {
  // after a reset without an error, a stream with unread data is closed, but not destroyed
  if (stream.closed) return
  if (stream.headersSent) return stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR)
  const headers = { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': INTERNAL }
  stream.respond({ ...headers, 'grpc-message': 'the primary is not running' }, { endStream: true })
}

function forwardedHeaders(headers: http2.IncomingHttpHeaders): http2.OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !CONNECTION_HEADERS.has(name)))
}
