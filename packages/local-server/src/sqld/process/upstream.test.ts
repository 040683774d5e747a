import { once } from 'node:events'
import net from 'node:net'
import { startLocalServer } from '@batonsql/local-server'
import { expect, onTestFinished, test } from 'vitest'
import { startSqld } from './process.ts'

/** Passes connections on to a port, and knows how many are open. */
async function countConnections(port: number) {
  const open = new Set<net.Socket>()
  let peak = 0
  const server = net.createServer((from) => {
    open.add(from)
    peak = Math.max(peak, open.size)
    const to = net.connect(port, '127.0.0.1')
    from.pipe(to).pipe(from)
    for (const socket of [from, to]) socket.on('error', () => {})
    from.once('close', () => {
      open.delete(from)
      to.destroy()
    })
    to.once('close', () => from.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    for (const socket of open) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  const { port: own } = server.address() as net.AddressInfo
  return { url: `http://127.0.0.1:${own}`, open, peak: () => peak }
}

test('after a burst of requests few connections to libsql-server stay open', async () => {
  await using sqld = await startSqld({ namespaces: true })
  const connections = await countConnections(sqld.port)
  await using server = await startLocalServer({
    backend: 'sqld',
    sqld: { url: connections.url, ...sqld.adminAccess },
  })
  const body = JSON.stringify({
    requests: [{ type: 'execute', stmt: { sql: 'select 1' } }, { type: 'close' }],
  })
  const ask = async (): Promise<number> => {
    const answer = await fetch(`${server.url}/v3/pipeline`, { method: 'POST', body })
    await answer.text()
    return answer.status
  }
  const statuses = await Promise.all(Array.from({ length: 60 }, ask))
  expect(new Set(statuses)).toEqual(new Set([200]))
  expect(connections.peak()).toBeGreaterThan(8)
  await expect.poll(() => connections.open.size).toBeLessThanOrEqual(8)
  expect(await ask()).toBe(200)
})
