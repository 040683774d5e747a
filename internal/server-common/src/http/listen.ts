import { once } from 'node:events'
import type { Server } from 'node:http'

/**
 * How long idle connections stay open, in ms. Clients and proxies must close them first (nginx after 60 s, Caddy after 2 min): if
 * the server closed one, a request sent at that moment would fail with ECONNRESET.
 */
const KEEP_ALIVE_MS = 300_000

/**
 * Listens on a port, and keeps idle connections open. A connection that cannot be accepted later is only reported.
 * @throws Error with the reason if this is not possible
 */
export async function listen(http: Server, port: number, host: string): Promise<void> {
  http.keepAliveTimeout = KEEP_ALIVE_MS
  try {
    http.listen(port, host)
    await once(http, 'listening')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const address = `port ${port} on ${host}`
    if (code === 'EADDRINUSE')
      throw new Error(`${address} is in use by another program; use port 0 to select a free one`, {
        cause: error,
      })
    if (code === 'EACCES') throw new Error(`${address} requires additional permissions`, { cause: error })
    throw error
  }
  let hasFailed = false
  http.on('error', (error) => {
    if (!hasFailed) process.emitWarning(`connections are not accepted: ${error.message}`)
    hasFailed = true
  })
}

/** Returns the URL at which programs on this machine reach a server that listens on `host`. */
export function getLocalUrl(host: string, port: number): string {
  const isWildcard = host === '0.0.0.0' || host === '::'
  const address = isWildcard ? '127.0.0.1' : host
  return `http://${address.includes(':') ? `[${address}]` : address}:${port}`
}
