// A server that responds from memory, so that only the client is measured. It forwards requests until it receives the command to
// replay, and then repeats the recorded responses. Runs in a separate process: canned.ts UPSTREAM
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'

const pool = new Pool(process.argv[2] as string)
const responses = new Map<string, { readonly status: number; readonly body: Buffer; readonly type: string }>()
let isReplaying = false

const server = http.createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const body = Buffer.concat(chunks)
    const key = `${request.url} ${body.toString().replace(/"(baton|replication_index)":("[^"]*"|\d+),?/g, '')}`
    const send = ({ status, body: text, type }: { status: number; body: Buffer; type: string }): void => {
      response.writeHead(status, { 'content-type': type, 'content-length': text.length }).end(text)
    }
    const recorded = responses.get(key)
    if (isReplaying)
      send(recorded ?? { status: 500, body: Buffer.from(`not recorded: ${key}`), type: 'text/plain' })
    else
      void forward(request, body).then((reply) => {
        responses.set(key, reply)
        send(reply)
      })
  })
})

async function forward(
  { method = 'POST', url = '/', headers }: http.IncomingMessage,
  body: Buffer,
): Promise<{ status: number; body: Buffer; type: string }> {
  const reply = await pool.request({
    method,
    path: url,
    headers: { 'content-type': headers['content-type'] ?? 'application/json' },
    body,
  })
  const type = String(reply.headers['content-type'] ?? 'application/json')
  return { status: reply.statusCode, body: Buffer.from(await reply.body.arrayBuffer()), type }
}

process.on('message', (message) => {
  if (message === 'replay') isReplaying = true
  else process.exit()
})
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
