import type { IncomingHttpHeaders } from 'node:http'
import { createHandler, startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close, execute } from '../server/wire.ts'
import { sendHttp } from '../support/send-http.ts'
import { words } from '../support/words.ts'
import { AttackedServer, KINDS } from './attacked-server.ts'
import { sendRaw, statuses } from './raw-exchange.ts'

interface PageResponse {
  readonly status: number
  readonly allowed: string | undefined
  readonly headers: IncomingHttpHeaders
}

/** Sends a request with node:http, because `fetch` does not allow setting headers that are reserved for browsers. */
async function sendRequest(
  url: string,
  method: string,
  headers: Record<string, string>,
  body?: string,
): Promise<PageResponse> {
  const reply = await sendHttp(url, { method, headers, ...(body !== undefined && { body }) })
  return { ...reply, allowed: reply.headers['access-control-allow-origin'] }
}

const INSERT_BODY = JSON.stringify({ requests: [execute('insert into t values (666)'), close] })

const FOREIGN_ORIGINS = [
  ...words(`
    https://evil.example http://evil.example:8080 http://localhost.evil.example
    http://127.0.0.1.evil.example http://evil.example#localhost http://localhost@evil.example
    http://evillocalhost http://127.0.0.1@evil.example http://[::1].evil.example http://128.0.0.1
    http://192.168.1.5:3000 http://0.0.0.0:3000 http://2130706433 https://localhost/evil
  `),
  'http://localhost:1 https://evil.example',
  'chrome-extension://abcdefghijklmnopabcdefghijklmnop',
  'file://',
  'null',
  '',
]
const LOCAL_ORIGINS = words(`
    http://localhost http://localhost:3000 https://localhost:5173 http://app.localhost:3000
    http://127.0.0.1:3000 http://127.1.2.3 http://[::1]:3000
  `)
const FOREIGN_HOSTS = words(`
    evil.example evil.example:8080 localhost.evil.example 127.0.0.1.evil.example 127.0.0.1.
    192.168.1.5 0.0.0.0 [::2] [::ffff:127.0.0.1] evil.example@localhost localhost#evil.example
    localhost,evil.example __proto__ constructor
  `)
const LOCAL_HOSTS = words('localhost LOCALHOST:8080 app.localhost:1 127.0.0.1 127.0.0.2:80 [::1]:8080')

describe.each(KINDS)('web pages: $backend, auth $auth', (kind) => {
  let attacked: AttackedServer
  let headers: Record<string, string>
  let url: string

  beforeAll(async () => {
    attacked = await AttackedServer.start(kind, {
      allowOrigins: ['https://app.example', 'tauri://localhost'],
      domains: { 'db.example': 'app' },
    })
    headers = await attacked.headers()
    url = `${attacked.server.url}/app/v2/pipeline`
    const requests = [execute('create table t(a)'), close]
    expect((await attacked.post('/app/v2/pipeline', { requests }, headers)).status).toBe(200)
  })
  afterAll(async () => {
    const requests = [execute('select count(*) from t'), close]
    const { text } = await attacked.post('/app/v2/pipeline', { requests }, headers)
    await attacked[Symbol.asyncDispose]()
    expect(text).toContain('"value":"0"')
  })

  test.each(FOREIGN_ORIGINS)('from %j are rejected', async (origin) => {
    for (const type of ['text/plain', 'application/json', 'application/x-www-form-urlencoded']) {
      const reply = await sendRequest(url, 'POST', { ...headers, origin, 'content-type': type }, INSERT_BODY)
      expect([reply.status, reply.allowed]).toEqual([403, undefined])
    }
    const preflight = await sendRequest(url, 'OPTIONS', { origin, 'access-control-request-method': 'POST' })
    expect([preflight.status, preflight.allowed]).toEqual([403, undefined])
    expect(preflight.headers['access-control-allow-headers']).toBeUndefined()
    for (const path of ['/version', '/health', '/v2', '/app/dump', '/nothing'])
      expect((await sendRequest(attacked.server.url + path, 'GET', { ...headers, origin })).status).toBe(403)
  })

  test.each([...LOCAL_ORIGINS, 'https://app.example', 'tauri://localhost'])(
    'from %j are allowed',
    async (origin) => {
      const body = JSON.stringify({ requests: [execute('select 1'), close] })
      const reply = await sendRequest(url, 'POST', { ...headers, origin }, body)
      expect([reply.status, reply.allowed]).toEqual([200, origin])
      expect(reply.headers.vary).toMatch(/\borigin\b/)
      const preflight = await sendRequest(url, 'OPTIONS', {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type',
        'access-control-request-private-network': 'true',
      })
      expect([preflight.status, preflight.allowed]).toEqual([200, origin])
      // `*` would not cover authorization
      expect(preflight.headers['access-control-allow-headers']).toBe('authorization,content-type')
      expect(preflight.headers['access-control-allow-methods']).toContain('POST')
      expect(preflight.headers['access-control-allow-private-network']).toBe('true')
    },
  )

  test('responses to requests without an origin do not allow web pages', async () => {
    const reply = await sendRequest(url, 'POST', headers, JSON.stringify({ requests: [close] }))
    expect([reply.status, reply.allowed]).toEqual([200, undefined])
  })

  test('responses cannot be loaded with a tag on a page from another site', async () => {
    for (const path of ['/app/dump', '/app/beta/listen?table=t']) {
      const siteHeaders = { ...headers, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }
      expect((await sendRequest(attacked.server.url + path, 'GET', siteHeaders)).status).toBe(403)
    }
    const siteHeaders = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', accept: 'text/html' }
    expect((await sendRequest(attacked.server.url, 'GET', siteHeaders)).status).toBe(200)
  })

  test.each(FOREIGN_HOSTS)('rejects requests for the host %j', async (host) => {
    const reply = await sendRequest(url, 'POST', { ...headers, host }, INSERT_BODY)
    expect([403, 400]).toContain(reply.status)
    expect((await sendRequest(`${attacked.server.url}/version`, 'GET', { host })).status).toBe(reply.status)
  })

  test.each([...LOCAL_HOSTS, 'db.example', 'db.example:80'])(
    'accepts requests for the host %j',
    async (host) => {
      expect(
        (await sendRequest(url, 'POST', { ...headers, host }, JSON.stringify({ requests: [close] }))).status,
      ).toBe(200)
    },
  )

  test('rejects requests with two hosts or none', async () => {
    const { port } = attacked.server
    const request = 'GET /version HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n'
    expect(statuses(await sendRaw(port, request))).toEqual([400])
    expect(statuses(await sendRaw(port, 'GET /version HTTP/1.1\r\n\r\n'))).toEqual([400])
    expect(statuses(await sendRaw(port, 'GET /version HTTP/1.0\r\n\r\n'))).toEqual([400])
    expect(statuses(await sendRaw(port, 'GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n'))).toEqual([200])
  })
})

test('a server that listens for other machines accepts its address as the host, but no names', async () => {
  await using server = await startLocalServer({ host: '0.0.0.0' })
  const versionUrl = `${server.url}/version`
  expect((await sendRequest(versionUrl, 'GET', { host: '192.168.1.5:8080' })).status).toBe(200)
  expect((await sendRequest(versionUrl, 'GET', { host: '[fe80::1]:8080' })).status).toBe(200)
  expect((await sendRequest(versionUrl, 'GET', { host: 'evil.example' })).status).toBe(403)
  // the server's own page
  const sameOrigin = { host: '192.168.1.5:8080', origin: 'http://192.168.1.5:8080' }
  expect((await sendRequest(versionUrl, 'GET', sameOrigin)).status).toBe(200)
  expect(
    (await sendRequest(versionUrl, 'GET', { ...sameOrigin, origin: 'http://192.168.1.5:9090' })).status,
  ).toBe(403)
})

test('a handler without a socket makes the same checks', async () => {
  await using handler = createHandler({ allowOrigins: ['https://app.example'] })
  const statusFrom = async (origin: string, url = 'http://localhost/version'): Promise<number> =>
    (await handler.fetch(new Request(url, { headers: { origin } }))).status
  expect(await statusFrom('https://evil.example')).toBe(403)
  expect(await statusFrom('https://app.example')).toBe(200)
  expect(await statusFrom('http://localhost:3000')).toBe(200)
  expect(await statusFrom('http://evil.example', 'http://evil.example/version')).toBe(403)
})

test.each(['*', 'app.example', 'https://app.example/', 'https://*.example', 'https://a b', ''])(
  'the origin %j cannot be allowed',
  async (origin) => {
    await expect(startLocalServer({ allowOrigins: [origin] })).rejects.toThrow(TypeError)
  },
)
