import { createServer } from 'node:net'

/**
 * Returns a port for a server that is started more than once. It is below the range that systems use for outgoing connections,
 * one of which could otherwise take the port before the server restarts.
 */
export async function stablePort(): Promise<number> {
  for (;;) {
    const port = 15_000 + Math.floor(Math.random() * 15_000)
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!isFree) continue
    await new Promise((resolve) => server.close(resolve))
    return port
  }
}
