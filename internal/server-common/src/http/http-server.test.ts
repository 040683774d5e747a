import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { type ConnectionLimits, createHttpServer } from './http-server.ts'

/** Starts a server whose responses to `/slow` end with the request body. */
async function start(limits: Partial<ConnectionLimits>): Promise<Server> {
  const http = createHttpServer((request, response) => {
    request.resume()
    if (request.url === '/slow') {
      response.flushHeaders()
      request.once('end', () => response.end('done'))
    } else response.end('ok')
  }, limits)
  onTestFinished(() => {
    http.closeAllConnections()
    http.close()
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  return http
}

async function open(http: Server, text = ''): Promise<Socket> {
  const socket = connect((http.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => {})
  socket.setEncoding('utf8')
  await once(socket, 'connect')
  if (text !== '') socket.write(text)
  return socket
}

const GET = 'GET / HTTP/1.1\r\nhost: a\r\n\r\n'
const SLOW_UPLOAD = 'POST /slow HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n'

test('connections that send nothing or half a header are closed; bodies may take longer', async () => {
  const http = await start({ headersMs: 50, checkMs: 20 })
  const upload = await open(http, SLOW_UPLOAD)
  await once(upload, 'data')
  upload.write('1')
  const silent = await open(http)
  const half = await open(http, 'GET / HTTP/1.1\r\nhost:')
  const second = await open(http, `${GET}GET / HTTP`)
  await Promise.all(
    [silent, half, second].map(async (socket) => {
      socket.resume()
      await once(socket, 'close')
    }),
  )
  upload.write('2')
  const [text] = await once(upload, 'data')
  expect(text).toContain('done')
})

test('if there are too many connections, the one without a request for the longest time is closed', async () => {
  const http = await start({ maxConnections: 3, headersMs: 600_000 })
  // Node would close them after a while, too
  http.keepAliveTimeout = 0
  const upload = await open(http, SLOW_UPLOAD)
  await once(upload, 'data')
  const idle = await open(http, GET)
  await once(idle, 'data')
  const silent = await open(http)
  for (const oldest of [idle, silent]) {
    const closed = once(oldest.resume(), 'close')
    const next = await open(http, GET)
    expect(await once(next, 'data')).toEqual([expect.stringContaining('200 OK')])
    await closed
  }
  upload.write('12')
  expect(await once(upload, 'data')).toEqual([expect.stringContaining('done')])
})
