import http from 'node:http'
import { TestHttpServer } from './test-http-server.ts'

/** The fault to inject into one request. */
export type Fault =
  | { readonly kind: 'none' }
  | { readonly kind: 'delay'; readonly ms: number }
  /** The server executes the request at once, but its response is delayed. */
  | { readonly kind: 'delay-response'; readonly ms: number }
  /** The server executes the request at once, but its response is delayed until the promise settles. */
  | { readonly kind: 'hold-response'; readonly until: Promise<unknown> }
  /** The connection is lost before the server has received the request. */
  | { readonly kind: 'drop-before' }
  /** The server executes the request, but its response is lost. */
  | { readonly kind: 'drop-after' }
  /** The server executes the request, but its response is truncated. */
  | { readonly kind: 'truncate' }
  /** A proxy responds in place of the server, which does not receive the request. */
  | { readonly kind: 'status'; readonly status: 429 | 502 | 503 | 504; readonly html: boolean }
  /** The server executes the request, but a proxy responds with an error of its own, as after a timeout. */
  | { readonly kind: 'status-after'; readonly status: 502 | 504 }

export const NO_FAULT: Fault = { kind: 'none' }

interface Upstream {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: Buffer
}

/** A proxy between a client and a server on this machine. It injects the faults that `next` returns. */
export class FaultProxy extends TestHttpServer {
  readonly #agent = new http.Agent({ keepAlive: true })
  /** Chooses the fault for each request to a pipeline. */
  next: (body: string) => Fault = () => NO_FAULT
  /** Whether to respond like a server that supports only `/v2`. */
  hidesV3 = false

  private constructor(upstream: URL) {
    super()
    this.http.on('request', (from, to) => {
      const chunks: Buffer[] = []
      from.on('data', (chunk: Buffer) => chunks.push(chunk))
      from.on('end', () => {
        void this.#handle(upstream, from, Buffer.concat(chunks), to)
      })
    })
  }

  static async start(url: string): Promise<FaultProxy> {
    return await new FaultProxy(new URL(url)).listen()
  }

  override async close(): Promise<void> {
    this.#agent.destroy()
    await super.close()
  }

  async #handle(
    upstream: URL,
    from: http.IncomingMessage,
    body: Buffer,
    to: http.ServerResponse,
  ): Promise<void> {
    if (this.hidesV3 && from.url?.includes('/v3/')) {
      to.writeHead(404).end()
      return
    }
    const fault = from.url?.includes('/pipeline') ? this.next(body.toString()) : NO_FAULT
    if (fault.kind === 'drop-before') {
      to.destroy()
      return
    }
    if (fault.kind === 'status') {
      to.writeHead(fault.status, { 'content-type': fault.html ? 'text/html' : 'application/json' })
      to.end(fault.html ? '<html><h1>Something is wrong</h1></html>' : '')
      return
    }
    if (fault.kind === 'delay') await new Promise((resolve) => setTimeout(resolve, fault.ms))
    const clientAbort = new AbortController()
    to.once('close', () => clientAbort.abort())
    const response = await this.#forward(upstream, from, body, clientAbort.signal).catch(() => null)
    if (fault.kind === 'delay-response') await new Promise((resolve) => setTimeout(resolve, fault.ms))
    if (fault.kind === 'hold-response') await fault.until
    if (response === null || fault.kind === 'drop-after') {
      to.destroy()
      return
    }
    if (fault.kind === 'status-after') {
      to.writeHead(fault.status).end()
      return
    }
    to.writeHead(response.status, {
      'content-type': response.headers['content-type'] ?? 'text/plain',
      'content-length': response.body.length,
    })
    if (fault.kind === 'truncate') {
      to.write(response.body.subarray(0, response.body.length >> 1))
      setImmediate(() => to.destroy())
      return
    }
    to.end(response.body)
  }

  /** Forwards a request. @param signal aborts it when its client disconnects */
  #forward(upstream: URL, from: http.IncomingMessage, body: Buffer, signal: AbortSignal): Promise<Upstream> {
    return new Promise((resolve, reject) => {
      // parts of the response are forwarded, so it must not be compressed
      const { 'transfer-encoding': _, 'accept-encoding': __, ...headers } = from.headers
      const request = http.request(
        new URL(upstream.pathname.replace(/\/$/, '') + from.url, upstream),
        {
          method: from.method,
          headers: { ...headers, host: upstream.host, 'content-length': body.length },
          agent: this.#agent,
          signal,
        },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('end', () =>
            resolve({
              status: response.statusCode ?? 502,
              headers: response.headers,
              body: Buffer.concat(chunks),
            }),
          )
          response.on('error', reject)
        },
      )
      request.on('error', reject)
      request.end(body)
    })
  }
}
