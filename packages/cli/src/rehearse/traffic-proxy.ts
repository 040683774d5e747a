import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream'

/** A transaction or a script that took several requests, or a single request. */
export interface Unit {
  readonly requests: number
  /** Time at the server, in ms. */
  readonly localMs: number
  /** Its first statement. */
  readonly sql: string
}

/** The beginning of a statement that a report shows, in characters. */
const SQL_LENGTH = 100
/** Of a larger body, only the beginning is read; all of it is forwarded. */
const MAX_READ_BYTES = 10_000_000

/** Forwards requests to a server, and measures them. */
export class TrafficProxy {
  readonly #server: http.Server
  /** Units by the baton with which their next request begins. */
  readonly #open = new Map<string, { requests: number; localMs: number; sql: string }>()
  readonly #units: Unit[] = []
  longest: Unit | null = null
  /** Number of requests that ran statements. */
  requests = 0

  private constructor(upstream: URL) {
    this.#server = http.createServer((request, response) => this.#forward(upstream, request, response))
  }

  /** Starts a proxy on a free port. @param upstream URL of a database */
  static async start(upstream: string): Promise<TrafficProxy> {
    const proxy = new TrafficProxy(new URL(upstream))
    await once(proxy.#server.listen(0, '127.0.0.1'), 'listening')
    // a connection that cannot be accepted fails only for its client
    proxy.#server.on('error', () => {})
    return proxy
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** All units, including those that were never ended. */
  get units(): readonly Unit[] {
    return [...this.#units, ...this.#open.values()]
  }

  #forward(upstream: URL, request: http.IncomingMessage, response: http.ServerResponse): void {
    const startedAt = performance.now()
    const sent: Buffer[] = []
    const received: Buffer[] = []
    const { method, headers } = request
    const path = upstream.pathname.replace(/\/$/, '') + (request.url ?? '/')
    const target = http.request(
      {
        host: upstream.hostname,
        port: upstream.port,
        method,
        path,
        // the server itself rejects other names, which a page in a browser may use
        headers: this.url === `http://${headers.host}` ? { ...headers, host: upstream.host } : headers,
      },
      (upstreamResponse) => {
        response.writeHead(upstreamResponse.statusCode ?? 502, upstreamResponse.headers)
        upstreamResponse.on('data', (part: Buffer) => keep(received, part))
        upstreamResponse.on('end', () => this.#record(path, sent, received, performance.now() - startedAt))
        // unlike pipe(), it also passes on that the response was cut off
        pipeline(upstreamResponse, response, () => {})
      },
    )
    target.on('error', () => response.destroy())
    response.on('close', () => target.destroy())
    request.on('data', (part: Buffer) => keep(sent, part))
    request.pipe(target)
  }

  #record(path: string, sent: readonly Buffer[], received: readonly Buffer[], ms: number): void {
    if (!/\/v\d\/(?:pipeline|cursor)$/.test(path)) return
    this.requests += 1
    const body = Buffer.concat(sent).toString()
    const text = Buffer.concat(received).toString()
    const baton = readBaton(body)
    const sql = readFirstStatement(body)
    const unit = (baton === null ? undefined : this.#open.get(baton)) ?? { requests: 0, localMs: 0, sql }
    if (baton !== null) this.#open.delete(baton)
    unit.requests += 1
    unit.localMs += ms
    if (this.longest === null || ms > this.longest.localMs) this.longest = { requests: 1, localMs: ms, sql }
    const next = readBaton(text)
    if (next === null) this.#units.push(unit)
    else this.#open.set(next, unit)
  }

  /** Aborts open requests, and stops the proxy. */
  async close(): Promise<void> {
    const closing = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closing
  }
}

function keep(parts: Buffer[], part: Buffer): void {
  const length = parts.reduce((sum, { length: partLength }) => sum + partLength, 0)
  if (length < MAX_READ_BYTES) parts.push(part)
}

const readBaton = (body: string): string | null =>
  /"baton"\s*:\s*"([^"]*)"/.exec(body.slice(0, 2_000))?.[1] ?? null

/** Returns the beginning of the first statement that is not a BEGIN. */
function readFirstStatement(body: string): string {
  // a pattern for the whole text would overflow the stack
  for (const [, start] of body.matchAll(/"sql"\s*:\s*"((?:[^"\\]|\\.){0,1000})/g)) {
    const sql = parseString(`"${start}"`).trim().replaceAll(/\s+/g, ' ')
    if (!/^begin\b/i.test(sql)) return sql.length > SQL_LENGTH ? `${sql.slice(0, SQL_LENGTH)}…` : sql
  }
  return 'BEGIN'
}

/** Parses a JSON string; returns the text itself if it is malformed, because a program may send anything. */
function parseString(json: string): string {
  try {
    return String(JSON.parse(json))
  } catch {
    return json
  }
}
