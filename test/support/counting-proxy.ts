import http from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/** Forwards requests to a server and counts them. */
export class CountingProxy {
  readonly #server: http.Server
  #requestCount = 0
  /** Bodies of requests, recorded if this is an array. */
  bodies: string[] | null = null

  private constructor(server: http.Server) {
    this.#server = server
  }

  /** @param host replaces the host in requests */
  static async start(target: string, host = getHost(target)): Promise<CountingProxy> {
    const upstream = new URL(target)
    const { request } = upstream.protocol === 'https:' ? https : http
    const agent = new (upstream.protocol === 'https:' ? https : http).Agent({ keepAlive: true })
    const base = upstream.pathname.replace(/\/$/, '')
    // longer than a test may block this process, which also runs the client
    const server = http.createServer({ keepAliveTimeout: 300_000 }, (incoming, outgoing) => {
      proxy.#requestCount += 1
      const forwarded = request(
        new URL(base + incoming.url, upstream),
        { method: incoming.method, headers: { ...incoming.headers, host }, agent },
        (response) => {
          outgoing.writeHead(response.statusCode ?? 502, response.headers)
          // an event stream sends headers long before its body
          outgoing.flushHeaders()
          response.on('error', () => outgoing.destroy())
          response.pipe(outgoing)
        },
      )
      forwarded.on('error', () => outgoing.destroy())
      outgoing.on('close', () => forwarded.destroy())
      incoming.pipe(forwarded)
      const { bodies } = proxy
      if (bodies)
        void text(incoming).then(
          (body) => bodies.push(body),
          () => {},
        )
    })
    const proxy = new CountingProxy(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    server.on('close', () => agent.destroy())
    return proxy
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  get requestCount(): number {
    return this.#requestCount
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

/** Returns the host for requests to a server. libsql-server uses its first label as the name of a database. */
const getHost = (target: string): string => {
  const { host } = new URL(target)
  return host === '127.0.0.1' ? 'localhost' : host
}
