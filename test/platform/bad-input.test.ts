import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sendHttp } from '../support/send-http.ts'
import { words } from '../support/words.ts'
import { Harness, type TestResponse } from './platform-harness.ts'

let harness: Harness
let orgPath: string

beforeAll(async () => {
  harness = await Harness.start()
  orgPath = harness.orgPath
  await harness.createDatabase('app')
})
afterAll(() => harness[Symbol.asyncDispose]())

/** Reads everything that the API returns about the organization. */
async function readEverything(): Promise<unknown> {
  const paths = ['databases', 'databases/app/configuration', 'groups', 'members', 'api-tokens', 'audit-logs']
  return await Promise.all(paths.map((path) => harness.requestOk('GET', path)))
}

/** Sends a request without normalizing its path. */
async function sendRaw(method: string, path: string, body = ''): Promise<TestResponse> {
  const headers = {
    authorization: `Bearer ${harness.platform.token}`,
    'content-length': Buffer.byteLength(body),
  }
  const { status, text } = await sendHttp(harness.platform.url, { method, path, headers, body })
  return { status, body: JSON.parse(text) }
}

const databaseRequest = (body: unknown) => ['POST', '/databases', body] as const
/** Requests a database that would be created without the given fields. */
const databaseWith = (fields: object) => databaseRequest({ name: 'x', group: 'default', ...fields })
const seedOf = (seed: unknown) => databaseWith({ seed })
const configurationRequest = (body: unknown) => ['PATCH', '/databases/app/configuration', body] as const
const tokenRequest = (query: string, body: unknown = {}) =>
  ['POST', `/databases/app/auth/tokens${query}`, body] as const

const INVALID_REQUESTS: readonly (readonly [method: string, path: string, body: unknown])[] = [
  databaseRequest({}),
  databaseRequest({ name: 'x' }),
  databaseRequest({ group: 'default' }),
  databaseRequest({ name: 5, group: 'default' }),
  databaseRequest({ name: null, group: 'default' }),
  databaseRequest({ name: ['x'], group: 'default' }),
  databaseRequest({ name: 'x', group: { name: 'default' } }),
  databaseRequest({ name: 'x', group: 'nowhere' }),
  ...words('X a_b -a a- ü ../x a/b a.b v2 health app default-local').map((name) => databaseWith({ name })),
  ...['', 'a b', 'a\u0000', 'x'.repeat(58)].map((name) => databaseWith({ name })),
  databaseWith({ size_limit: 'many' }),
  databaseWith({ size_limit: '-1' }),
  seedOf('app'),
  seedOf({ type: 'database' }),
  seedOf({ type: 'database', name: 'nowhere' }),
  seedOf({ type: 'database', name: 'app', timestamp: 'yesterday' }),
  seedOf({ type: 'database', name: 'app', timestamp: '2999-01-01T00:00:00Z' }),
  seedOf({ type: 'database', name: 'app', timestamp: '2024-01-01T00:00:00Z' }),
  seedOf({ type: 'dump' }),
  seedOf({ type: 'dump', url: 'file:///etc/passwd' }),
  seedOf({ type: 'dump', url: 'http://127.0.0.1:1/nothing' }),
  seedOf({ type: 'database_upload' }),
  seedOf({ type: '__proto__' }),
  databaseWith({ schema: 'app' }),
  databaseWith({ is_schema: true, schema: 'app' }),
  databaseWith({ remote_encryption: { encryption_key: 'k', encryption_cipher: 'aes256gcm' } }),
  databaseRequest('not JSON'),
  databaseRequest('[1]'),
  databaseRequest('"x"'),
  databaseRequest('['.repeat(2_000) + ']'.repeat(2_000)),
  databaseRequest(`{"name":"x","group":"default","extra":${'['.repeat(100)}${']'.repeat(100)}}`),
  configurationRequest({ size_limit: {} }),
  configurationRequest({ size_limit: -5 }),
  configurationRequest({ block_reads: 'yes' }),
  configurationRequest({ delete_protection: 1 }),
  configurationRequest({ delete_protecton: true }),
  configurationRequest({ allowed_ips: ['nowhere'] }),
  configurationRequest({ allowed_ips: ['10.0.0.0/99'] }),
  configurationRequest({ allowed_ips: '10.0.0.1' }),
  tokenRequest('?expiration=soon'),
  tokenRequest('?expiration=-1d'),
  tokenRequest('?expiration=1d2'),
  tokenRequest('?expiration=0s'),
  tokenRequest('?expiration=999999999y'),
  tokenRequest('?authorization=everything'),
  tokenRequest('', { permissions: { read_attach: { databases: 'app' } } }),
  tokenRequest('', { permissions: { read_attach: { databases: ['nowhere'] } } }),
  tokenRequest('', { fine_grained_permissions: [{ t: null, a: ['data_insert'] }] }),
  ['POST', '/groups', { name: 'default', location: 'local' }],
  ['POST', '/groups', { name: 'g', location: 'atlantis' }],
  ['POST', '/groups', { name: 'G g', location: 'local' }],
  ['POST', '/groups', { name: 'g' }],
  ['POST', '/groups', { name: 'g', location: 'local', extensions: ['teleport'] }],
  ['DELETE', '/groups/default/locations/local', undefined],
  ['POST', '/groups/default/locations/atlantis', undefined],
  ['POST', '/databases/app/instances', { location: 'atlantis' }],
  ['POST', '/databases/app/instances', {}],
  ['DELETE', '/databases/app/instances/local', undefined],
  ['POST', '/groups/default/transfer', { organization: 'nowhere' }],
  ['POST', '/groups/default/transfer', {}],
  ['POST', '/databases/app/transfer', {}],
  ['POST', '/databases/app/transfer', { org: 'nowhere' }],
  ['POST', '/databases/app/transfer', { org: 'local', group: 'nowhere' }],
  ['POST', '/databases/app/transfer', { org: 'local', group: 'default' }],
  ['PATCH', '', { overages: 'yes' }],
  ['PATCH', '', { overages: true, blocked_reads: true }],
  ['PATCH', '', { require_mfa: 'yes' }],
  ['PATCH', '/groups/default/configuration', { protection: true }],
  ['DELETE', '', undefined],
  ['POST', '/members', { username: 'nobody' }],
  ['POST', '/members', { username: 'owner' }],
  ['POST', '/members', {}],
  ['PATCH', '/members/owner', { role: 'viewer' }],
  ['PATCH', '/members/owner', { role: 'king' }],
  ['DELETE', '/members/owner', undefined],
  ['GET', '/audit-logs?page=0', undefined],
  ['GET', '/audit-logs?page_size=x', undefined],
  ['GET', '/invoices?type=mine', undefined],
  ['GET', '/databases?limit=0', undefined],
  ['GET', '/databases?cursor=x', undefined],
  ['GET', '/databases?type=tables', undefined],
  ['GET', '/databases/app/usage?from=2023-12-12T00:00:00', undefined],
  ['GET', '/databases/app/usage?from=2024-01-02T00:00:00Z&to=2024-01-01T00:00:00Z', undefined],
  ['POST', '/databases/dumps', {}],
]

test('requests that only the service supports are rejected with the code `not_supported`', async () => {
  const database = { name: 'x', group: 'default' }
  const withSeed = (seed: object) => ({ ...database, seed: { type: 'database', name: 'app', ...seed } })
  for (const body of [
    { ...database, use_tursodb: true },
    { ...database, remote_encryption: { encryption_key: 'k', encryption_cipher: 'aes256gcm' } },
    { ...database, seed: { type: 'database_upload' } },
    withSeed({ timestamp: '2024-01-01T00:00:00Z' }),
  ])
    expect(await harness.sendRequest('POST', 'databases', { body })).toMatchObject({
      status: 400,
      body: { error: expect.any(String), code: 'not_supported' },
    })
  for (const [method, path] of [
    ['POST', '/databases/app/seed'],
    ['POST', '/groups/default/aws/migration/start'],
    ['PUT', '/billing/customer'],
  ] as const)
    expect(await harness.sendRequest(method, orgPath + path, { body: '{}' })).toMatchObject({
      status: 501,
      body: { error: expect.any(String), code: 'not_supported' },
    })
})

test('an invalid request is rejected with a reason, and changes nothing', async () => {
  const stateBefore = await readEverything()
  for (const [method, path, body] of INVALID_REQUESTS) {
    const { status, body: response } = await harness.sendRequest(
      method,
      orgPath + path,
      body === undefined ? {} : { body },
    )
    const call = `${method} ${path} ${JSON.stringify(body)?.slice(0, 200)}`
    expect([call, status >= 400 && status < 500, typeof response?.error]).toEqual([call, true, 'string'])
    // 401 and 403 would concern the caller, who is the owner
    expect([call, status]).not.toEqual([call, 401])
    expect([call, status]).not.toEqual([call, 403])
    expect(response.error.length).toBeLessThan(400)
  }
  for (const [path, body] of [
    ['/v2/organizations/local/invites', {}],
    ['/v2/organizations/local/invites', { email: 'a@b', username: 'owner' }],
    ['/v2/organizations/local/invites', { email: 'a b' }],
    ['/v2/organizations/local/invites', { email: 'a@b', role: 'owner' }],
    ['/v1/auth/api-tokens/x', { group: 'default' }],
    ['/v1/auth/api-tokens/x', { organization: 'nowhere' }],
    ['/v1/auth/api-tokens/x', { organization: 'local', group: 'nowhere', scopes: ['read'] }],
    ['/v1/auth/api-tokens/x', { organization: 'local', group: 'default', scopes: ['everything'] }],
    ['/v1/auth/api-tokens/x', { organization: 'local', group: 'default' }],
    ['/v1/auth/api-tokens/x', { organization: 'local', scopes: ['read'] }],
    ['/v1/auth/api-tokens/owner', {}],
  ] as const) {
    const { status, body: response } = await harness.sendRequest('POST', path, { body })
    expect([path, body, status >= 400 && status < 500, typeof response.error]).toEqual([
      path,
      body,
      true,
      'string',
    ])
  }
  expect(await readEverything()).toEqual(stateBefore)
})

test.each([
  ...words(`
    /v1/organizations/local/databases/../databases/app
    /v1/organizations/local/databases/%2e%2e/databases/app
    /v1/organizations/local/databases/.%2e/%2e./app /v1/organizations/local/databases/x%2f..%2fapp
    /v1/organizations/local/databases/app%2f /v1/organizations/local/databases/app%5c..
    /v1/organizations/local/databases/app%00 /v1/organizations/local/databases/app%0d%0a
    /v1/organizations/local/databases/% /v1/organizations/local/databases/%c0%ae%c0%ae
    /v1/organizations/./local/databases/app
  `),
  '/v1/organizations/local/databases\\app',
  'http://127.0.0.1/v1/organizations/local/databases/app',
  '*',
])('rejects DELETE of the invalid path %s', async (path) => {
  const { status, body } = await sendRaw('DELETE', path)
  expect([status, body]).toEqual([400, { error: 'invalid path' }])
  expect(await harness.statusOf('GET', 'databases/app')).toBe(200)
})

test.each(
  words(`
    /v1/organizations/local/databases//app //v1/organizations/local/databases/app
    //127.0.0.1/v1/organizations/local/databases/app /v1/organizations/local/databases/app%20
    /v1/organizations/local/databases/APP /v1/organizations/local/databases/app-local
    /V1/organizations/local/databases/app /v1/organizations/LOCAL/databases/app
    /v1/organizations/local/databases/app%252f /v1/organizations/__proto__/databases/app
    /v1/organizations/local/databases/__proto__
  `),
)('responds with 404 to DELETE of a missing resource: %s', async (path) => {
  expect((await sendRaw('DELETE', path)).status).toBe(404)
  expect(await harness.statusOf('GET', 'databases/app')).toBe(200)
})

test('a body that is too large is rejected before it is read', async () => {
  const padding = 'x'.repeat(3 * 1_024 ** 2)
  const response = await sendRaw(
    'POST',
    `${orgPath}/databases`,
    JSON.stringify({ name: 'big', group: 'default', padding }),
  )
  expect([response.status, response.body]).toEqual([
    413,
    { error: 'a request body is limited to 1048576 bytes' },
  ])
  expect(await harness.statusOf('GET', 'databases/big')).toBe(404)
})

test.each([
  ['an invalid path', 'POST * HTTP/1.1\r\nhost: localhost'],
  ['an invalid host', 'POST /v1/organizations/local/groups HTTP/1.1\r\nhost: evil.example'],
  ['a missing token', 'POST /v1/organizations/local/groups HTTP/1.1\r\nhost: localhost'],
  ['an invalid method', 'POST /metrics HTTP/1.1\r\nhost: localhost'],
])('an upload that is rejected for %s is not received completely', async (_reason, head) => {
  const { hostname, port } = new URL(harness.platform.url)
  const socket = connect(Number(port), hostname)
  let response = ''
  socket.setEncoding('utf8').on('data', (part) => (response += part))
  socket.write(`${head}\r\ncontent-length: 1000000\r\n\r\n{`)
  await once(socket, 'close')
  expect(response).toMatch(/^HTTP\/1\.1 40[0135] [^]*connection: close/)
})

test('keys are case-insensitive, regardless of the content type', async () => {
  await harness.requestOk('POST', 'groups', { body: { Name: 'shouted', LOCATION: 'local', Version: '' } })
  expect(await harness.statusOf('GET', 'groups/shouted')).toBe(200)
})

test('requests from web pages on other sites and hosts are rejected', async () => {
  const sendRequest = async (headers: Record<string, string>): Promise<number> => {
    const allHeaders = { authorization: `Bearer ${harness.platform.token}`, ...headers }
    return (await sendHttp(`${harness.platform.url}/v1/user`, { headers: allHeaders })).status
  }
  expect(await sendRequest({})).toBe(200)
  expect(await sendRequest({ origin: 'http://localhost:3000' })).toBe(200)
  expect(await sendRequest({ origin: 'https://evil.example' })).toBe(403)
  expect(await sendRequest({ host: 'evil.example' })).toBe(403)
})
