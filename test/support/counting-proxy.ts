import http from 'node:http'
import https from 'node:https'
import { text } from 'node:stream/consumers'
import { TestHttpServer } from './test-http-server.ts'

/** Forwards requests to a server and counts them. */
export class CountingProxy extends TestHttpServer {
  #requestCount = 0
  /** Bodies of requests, recorded if this is an array. */
  bodies: string[] | null = null

  /** @param host replaces the host in requests */
  static async start(target: string, host = getHost(target)): Promise<CountingProxy> {
    const upstream = new URL(target)
    const { request } = upstream.protocol === 'https:' ? https : http
    const agent = new (upstream.protocol === 'https:' ? https : http).Agent({ keepAlive: true })
    const base = upstream.pathname.replace(/\/$/, '')
    const proxy = new CountingProxy()
    proxy.http.on('request', (incoming, outgoing) => {
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
    proxy.http.on('close', () => agent.destroy())
    return await proxy.listen()
  }

  get requestCount(): number {
    return this.#requestCount
  }
}

/** Returns the host for requests to a server. libsql-server uses its first label as the name of a database. */
const getHost = (target: string): string => {
  const { host } = new URL(target)
  return host === '127.0.0.1' ? 'localhost' : host
}
