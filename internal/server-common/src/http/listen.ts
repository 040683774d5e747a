import type { Server } from 'node:http'

/**
 * How long idle connections stay open, in ms. Clients and proxies must close them first (nginx after 60 s, Caddy after 2 min): if
 * the server closed one, a request sent at that moment would fail with ECONNRESET.
 */
const KEEP_ALIVE_MS = 300_000

/** Listens on a port. @throws Error with the reason if this is not possible */
export async function listen(http: Server, port: number, host: string): Promise<void> {
  http.keepAliveTimeout = KEEP_ALIVE_MS
  try {
    await new Promise<void>((resolve, reject) => {
      http.once('error', reject)
      http.listen(port, host, resolve)
    })
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
}

/** Returns the URL for programs on this machine. */
export function getLocalUrl(host: string, port: number): string {
  const isWildcard = host === '0.0.0.0' || host === '::'
  return `http://${isWildcard ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host}:${port}`
}
