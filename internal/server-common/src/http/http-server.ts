import { readFileSync } from 'node:fs'
import type { RequestListener, Server } from 'node:http'
import type { Socket } from 'node:net'

export interface ConnectionLimits {
  /** How long a client may take to send the headers of a request, counted from the connection or the first byte, in ms. */
  readonly headersMs: number
  /** How often that is checked, in ms. */
  readonly checkMs: number
  readonly maxConnections: number
}

const HEADERS_MS = 20_000
const CHECK_MS = 5_000
const MAX_CONNECTIONS = 10_000
/** The limit of descriptors if the system does not report one. */
const USUAL_DESCRIPTORS = 1_024

/**
 * Creates an HTTP server that closes connections which send nothing, or only a part of the headers. Bodies may take any time. If
 * more connections are open than allowed, the one that has been without a request for the longest time is closed.
 */
export function createHttpServer(listener?: RequestListener, limits: Partial<ConnectionLimits> = {}): Server {
  const { headersMs = HEADERS_MS, checkMs = CHECK_MS, maxConnections = getMaxConnections() } = limits
  // `import` of this module also loads the runtime's `fetch`, which takes 40 ms
  const http = process.getBuiltinModule('node:http').createServer(
    {
      requestTimeout: 0,
      headersTimeout: headersMs,
      connectionsCheckingInterval: checkMs,
      insecureHTTPParser: false,
      requireHostHeader: true,
    },
    ...(listener === undefined ? [] : [listener]),
  )
  limitConnections(http, maxConnections)
  return http
}

function limitConnections(http: Server, maxConnections: number): void {
  /** Requests in progress on each open connection. */
  const requests = new Map<Socket, number>()
  /** Connections without a request, in the order in which they became so. */
  const waiting = new Set<Socket>()
  http.on('connection', (socket) => {
    requests.set(socket, 0)
    waiting.add(socket)
    socket.once('close', () => {
      requests.delete(socket)
      waiting.delete(socket)
    })
    const [oldest] = waiting
    if (requests.size > maxConnections) oldest?.destroy()
  })
  http.on('request', ({ socket }, response) => {
    requests.set(socket, (requests.get(socket) ?? 0) + 1)
    waiting.delete(socket)
    response.once('close', () => {
      const remaining = (requests.get(socket) ?? 1) - 1
      if (socket.destroyed) return
      requests.set(socket, remaining)
      if (remaining === 0) waiting.add(socket)
    })
  })
}

/** Leaves half of this process's descriptors to files, threads and connections to libsql-server. */
function getMaxConnections(): number {
  return Math.min(MAX_CONNECTIONS, Math.floor(countDescriptors() / 2))
}

function countDescriptors(): number {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return limit === undefined ? USUAL_DESCRIPTORS : Number(limit)
  } catch {
    return USUAL_DESCRIPTORS
  }
}
