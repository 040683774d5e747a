import { once } from 'node:events'
import net from 'node:net'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/sqld-gateway/process'
import { expect, onTestFinished, test } from 'vitest'

/** Forwards connections to a port, and counts the open ones. */
class Connections {
  readonly open = new Set<net.Socket>()
  /** Data from clients is delayed until this resolves. */
  #released: Promise<void> = Promise.resolve()
  #release = (): void => {}
  #requiredCount = 0

  add(client: net.Socket, upstream: net.Socket): void {
    this.open.add(client)
    if (this.open.size >= this.#requiredCount) this.#release()
    client.on('data', (chunk) => void this.#released.then(() => upstream.write(chunk)))
    upstream.pipe(client)
    for (const socket of [client, upstream]) socket.on('error', () => {})
    client.once('close', () => {
      this.open.delete(client)
      upstream.destroy()
    })
  }

  /** Delays all data until this many connections are open. */
  holdUntil(count: number): void {
    this.#requiredCount = count
    this.#released = new Promise((resolve) => (this.#release = resolve))
  }
}

async function listenFor(connections: Connections, port: number): Promise<string> {
  const server = net.createServer((client) => connections.add(client, net.connect(port, '127.0.0.1')))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    for (const socket of connections.open) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`
}

test('keeps few connections to libsql-server open after a burst of requests', async () => {
  await using sqld = await startSqld({ namespaces: true })
  const connections = new Connections()
  const url = await listenFor(connections, sqld.port)
  await using server = await startLocalServer({ backend: 'sqld', sqld: { url, ...sqld.adminAccess } })
  const body = JSON.stringify({
    requests: [{ type: 'execute', stmt: { sql: 'select 1' } }, { type: 'close' }],
  })
  const sendRequest = async (): Promise<number> => {
    const response = await fetch(`${server.url}/v3/pipeline`, { method: 'POST', body })
    await response.text()
    return response.status
  }
  connections.holdUntil(40)
  const statuses = await Promise.all(Array.from({ length: 60 }, sendRequest))
  expect(new Set(statuses)).toEqual(new Set([200]))
  await expect.poll(() => connections.open.size).toBeLessThanOrEqual(8)
  expect(await sendRequest()).toBe(200)
})
