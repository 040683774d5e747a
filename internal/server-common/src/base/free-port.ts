import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** Returns a TCP port of 127.0.0.1 that was free a moment ago. Another program may take it, so callers must be able to retry. */
export async function findFreePort(): Promise<number> {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
