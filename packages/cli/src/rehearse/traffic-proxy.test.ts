import { once } from 'node:events'
import http from 'node:http'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { failAccepting } from '../../../../test/support/fail-accepting.ts'
import { TestHttpServer } from '../../../../test/support/test-http-server.ts'
import { TrafficProxy } from './traffic-proxy.ts'

let upstream: TestHttpServer
let proxy: TrafficProxy
let answer: (request: http.IncomingMessage, response: http.ServerResponse) => void

beforeEach(async () => {
  upstream = await new TestHttpServer().listen()
  upstream.http.on('request', (request, response) => {
    request.resume().on('end', () => answer(request, response))
  })
  proxy = await TrafficProxy.start(upstream.url)
})
afterEach(async () => {
  await proxy.close()
  await upstream.close()
})

const send = (body: string) => fetch(`${proxy.url}/v2/pipeline`, { method: 'POST', body })

test('connections that cannot be accepted do not end the process', async () => {
  failAccepting()
  answer = (_, response) => void response.end('answer')
  expect(await (await send('{}')).text()).toBe('answer')
})

test('forwards a body that is no JSON', async () => {
  answer = (_, response) => void response.writeHead(400).end('no JSON')
  for (const body of ['{"sql":"\\q"}', '{"sql":"a\nb"}', '{"sql":', '', '[]', '{"baton":"'])
    expect(await (await send(body)).text()).toBe('no JSON')
  expect(proxy.requests).toBe(6)
  expect(proxy.units.map(({ sql }) => sql)).toEqual(['"\\q"', '"a b"', ...Array(4).fill('BEGIN')])
})

test('reads JSON with white space, and long SQL', async () => {
  const sql = `insert into t values ('${'\n'.repeat(4_900_000)}')`
  answer = (_, response) => void response.end('{ "baton" : "b", "results": [] }')
  await send(JSON.stringify({ baton: null, requests: [{ type: 'execute', stmt: { sql } }] }))
  answer = (_, response) => void response.end('{ "baton": null }')
  await send('{ "baton": "b" }')
  expect(proxy.units).toMatchObject([{ requests: 2, sql: "insert into t values ('" }])
})

test('passes on that a response was cut off, before and after its head', async () => {
  answer = (request) => void request.socket.destroy()
  await expect(send('{}')).rejects.toThrow()
  answer = (request, response) => void response.writeHead(200).write('{', () => request.socket.destroy())
  const response = await send('{}')
  await expect(response.text()).rejects.toThrow()
})

test('leaves the name of another host to the server', async () => {
  const hosts: (string | undefined)[] = []
  answer = (request, response) => {
    hosts.push(request.headers.host)
    response.end()
  }
  const { port } = new URL(proxy.url)
  for (const host of ['attacker.example', `127.0.0.1:${port}`]) {
    const request = http.get({ host: '127.0.0.1', port, path: '/v2', headers: { host } })
    const [response] = (await once(request, 'response')) as [http.IncomingMessage]
    await once(response.resume(), 'end')
  }
  expect(hosts).toEqual(['attacker.example', new URL(upstream.url).host])
})
