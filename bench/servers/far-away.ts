// A proxy that simulates a network: it delays each request and counts the traffic. Runs in its own process:
// far-away.ts UPSTREAM DELAY_MS
import http from 'node:http'
import type { AddressInfo } from 'node:net'

const [upstream = '', delay = '0'] = process.argv.slice(2)
const { hostname, port } = new URL(upstream)
const agent = new http.Agent({ keepAlive: true })
let traffic = { requests: 0, bytesOut: 0, bytesIn: 0 }

const server = http.createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const body = Buffer.concat(chunks)
    traffic.requests += 1
    traffic.bytesOut += body.length
    setTimeout(() => {
      const { method, url, headers } = request
      http
        .request({ hostname, port, method, path: url, headers, agent }, (upstreamResponse) => {
          response.writeHead(upstreamResponse.statusCode ?? 502, upstreamResponse.headers)
          upstreamResponse.on('data', (chunk: Buffer) => (traffic.bytesIn += chunk.length))
          upstreamResponse.pipe(response)
        })
        .end(body)
    }, Number(delay))
  })
})

/** Traffic since the last report. */
export interface Traffic {
  readonly requests: number
  readonly bytesOut: number
  readonly bytesIn: number
}

process.on('message', (message) => {
  if (message !== 'count') process.exit()
  process.send?.(traffic)
  traffic = { requests: 0, bytesOut: 0, bytesIn: 0 }
})
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
