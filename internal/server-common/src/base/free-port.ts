import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** Returns a TCP port that was free a moment ago. Another program may take it, so callers must be able to retry. */
export async function findFreePort(host: string): Promise<number> {
  const server = createServer()
  await once(server.listen(0, host), 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
