// The minimum work of a proxy in front of libsql-server: forwards requests with undici's dispatch and parses their bodies once.
// Runs in its own process: minimal-proxy.ts UPSTREAM
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'

const pool = new Pool(process.argv[2] as string, { connections: 128 })

const server = http.createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)
    JSON.parse(body.toString('utf8'))
    const { authorization = '' } = request.headers
    const headers = { 'content-type': 'application/json', authorization }
    pool.dispatch(
      { method: 'POST', path: request.url ?? '/', headers, body },
      {
        onRequestStart: () => {},
        onResponseStart: (_, status, { 'content-length': length }) => {
          const lengthHeader = length === undefined ? {} : { 'content-length': String(length) }
          response.writeHead(status, { 'content-type': 'application/json', ...lengthHeader })
        },
        onResponseData: (controller, chunk) => {
          if (response.write(chunk)) return
          controller.pause()
          response.once('drain', () => controller.resume())
        },
        onResponseEnd: () => response.end(),
        onResponseError: () => response.destroy(),
      },
    )
  })
})

process.on('message', (message) => {
  if (message === 'cpu') process.send?.(process.cpuUsage())
  else process.exit()
})
// longer than the pauses between rounds
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
