import type { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { serviceRequest } from '../../../test/server/service-request.ts'
import { InspectorFeed } from './inspector-feed.ts'
import { InspectorPage } from './inspector-page.ts'

async function get(path: string, remoteAddress: string | undefined, headers: Record<string, string>) {
  const page = new InspectorPage(new InspectorFeed({ version: 'v' }), () => ['app', 'default'])
  return await page.handle(serviceRequest('', { method: 'GET', path, headers, remoteAddress }))
}

const statusFor = async (
  remoteAddress: string | undefined,
  headers: Record<string, string>,
): Promise<number> => (await get('/_baton', remoteAddress, headers)).status

test.each(['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1'])(
  'a client at %s can open the page',
  async (address) => {
    expect(await statusFor(address, { host: 'localhost:8080' })).toBe(200)
  },
)

test.each(['192.168.1.5', '10.0.0.1', 'fe80::1', '::ffff:192.168.1.5', '', undefined])(
  'a client at %s is rejected, even with the host localhost',
  async (address) => {
    expect(await statusFor(address, { host: 'localhost:8080' })).toBe(403)
  },
)

test.each(['localhost', 'LOCALHOST:1', '127.0.0.1:8080', '127.1.2.3', '[::1]:8080'])(
  'is served under the host name %s',
  async (host) => {
    expect(await statusFor('127.0.0.1', { host })).toBe(200)
  },
)

test.each([
  'app.localhost',
  'evil.LOCALHOST:8080',
  'a.b.localhost',
  'localhost.evil.example',
  '192.168.1.5',
  '',
])('is not served under the host name %s', async (host) => {
  expect(await statusFor('127.0.0.1', { host })).toBe(403)
})

test.each(['x-forwarded-for', 'forwarded'])(
  'is not served to a client behind a proxy that sends %s',
  async (name) => {
    expect(await statusFor('127.0.0.1', { host: 'localhost', [name]: 'for=203.0.113.7' })).toBe(403)
  },
)

test('serves the page, the names of databases and the events, each with its type', async () => {
  const serve = (path: string) => get(path, '127.0.0.1', { host: 'localhost' })
  const typeOf = async (path: string) => (await serve(path)).headers['content-type']
  expect(await typeOf('/_baton')).toContain('text/html')
  expect((await serve('/_baton/databases')).body).toBe('["app","default"]')
  expect(await typeOf('/_baton/databases')).toBe('application/json')
  const { headers, body } = await serve('/_baton/events')
  expect(headers['content-type']).toBe('text/event-stream')
  expect(String((await (body as Readable).take(1).toArray())[0])).toContain('"version":"v"')
  ;(body as Readable).destroy()
  expect((await serve('/_baton/nothing')).status).toBe(404)
})
