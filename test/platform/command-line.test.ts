import { writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { Harness } from './platform-harness.ts'

/*
 * The vendor's CLI is a Go program that cannot be installed everywhere. This test sends its recorded requests, command by
 * command, with the same headers and bodies, and checks the fields of the responses that the CLI reads.
 */

// oxlint-disable-next-line typescript/no-explicit-any -- the CLI does not validate responses
type JsonBody = any

/** Sends the requests of the CLI. */
class VendorCli {
  readonly #harness: Harness
  token = ''

  constructor(harness: Harness) {
    this.#harness = harness
  }

  async sendRequest(method: string, path: string, body?: unknown): Promise<JsonBody> {
    const { status, reply } = await this.try(method, path, body)
    expect([method, path, status, reply?.error]).toEqual([method, path, 200, undefined])
    return reply
  }

  async try(method: string, path: string, body?: unknown) {
    const text = body === undefined ? '' : JSON.stringify(body)
    const headers = {
      authorization: `Bearer ${this.token}`,
      'user-agent': 'turso-cli/dev (linux/amd64)',
      tursocliversion: 'dev',
      // on every request except uploads, even without a body
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    }
    return await new Promise<{ status: number; reply: JsonBody }>((resolve, reject) => {
      const outgoing = request(this.#harness.platform.url + path, { method, headers }, (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (part) => (text += part))
        response.on('end', () => {
          const reply = text === '' ? undefined : JSON.parse(text)
          resolve({ status: response.statusCode ?? 0, reply })
        })
      })
      outgoing.on('error', reject)
      outgoing.end(text)
    })
  }
}

const ORGANIZATION = '/v1/organizations/local'
const ORGANIZATION_V2 = '/v2/organizations/local'

test('serves a session of the CLI from login to logout', async () => {
  const harness = await Harness.forTest()
  const cli = new VendorCli(harness)

  // auth login: opens a browser, and receives a token from it
  const page = await fetch(`${harness.platform.url}/?port=4567&redirect=true&type=cli&state=abc`)
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(await page.text()).not.toContain(harness.platform.token)
  const post = (token: string) =>
    fetch(harness.platform.url, {
      method: 'POST',
      body: new URLSearchParams({ token, port: '4567', state: 'abc' }),
      redirect: 'manual',
    })
  expect((await post('wrong')).status).toBe(401)
  const redirect = await post(harness.platform.token)
  const location = new URL(redirect.headers.get('location') ?? '')
  expect([redirect.status, location.origin, location.searchParams.get('state')]).toEqual([
    303,
    'http://localhost:4567',
    'abc',
  ])
  cli.token = location.searchParams.get('jwt') ?? ''

  // before every command
  expect(await cli.sendRequest('GET', '/v1/auth/validate')).toEqual({ exp: -1 })
  expect((await cli.sendRequest('GET', '/v1/current-user')).user.username).toBe('owner')
  expect((await cli.sendRequest('GET', '/releases/latest')).latest).toMatch(/^v/)

  // org list, members, invites, audit-logs, plan show
  expect((await cli.sendRequest('GET', '/v2/organizations')).organizations).toMatchObject([
    { slug: 'local', type: 'personal' },
  ])
  expect((await cli.sendRequest('GET', `${ORGANIZATION}/members`)).members).toMatchObject([
    { username: 'owner', role: 'owner' },
  ])
  await cli.sendRequest('POST', `${ORGANIZATION}/invite`, { email: 'ann@example.test', role: 'member' })
  expect((await cli.sendRequest('GET', `${ORGANIZATION}/invites`)).invites).toMatchObject([
    { Email: 'ann@example.test', Accepted: false },
  ])
  await cli.sendRequest('DELETE', `${ORGANIZATION}/invites/ann@example.test`)
  expect((await cli.sendRequest('GET', '/v1/plans')).plans[0]).toMatchObject({
    price: '0',
    quotas: { groups: 1 },
  })
  expect((await cli.sendRequest('GET', `${ORGANIZATION}/subscription`)).subscription).toMatchObject({
    plan: 'scaler',
  })

  // org create, destroy
  await cli.sendRequest('POST', '/v1/organizations?dry_run=true', { name: 'second' })
  expect((await cli.try('POST', '/v1/organizations/stripe-customer', { Name: 'second' })).status).toBe(501)
  expect(
    (await cli.sendRequest('POST', '/v1/organizations?dry_run=false', { name: 'second' })).org.slug,
  ).toBe('second')
  await cli.sendRequest('POST', '/v1/organizations/second/subscription', { plan: 'scaler' })
  expect((await cli.try('POST', '/v1/organizations?dry_run=true', { name: 'second' })).status).toBe(409)
  await cli.sendRequest('DELETE', '/v1/organizations/second')

  // group create, list, locations
  const locations = (await cli.sendRequest('GET', `${ORGANIZATION_V2}/locations`)).locations
  await cli.sendRequest('POST', `${ORGANIZATION}/groups`, { Name: 'team', Location: 'ams', Version: '' })
  await cli.sendRequest('GET', `${ORGANIZATION}/groups/team/locations/ams/wait`)
  const { groups } = await cli.sendRequest('GET', `${ORGANIZATION}/groups`)
  const team = groups.find(({ name }: { name: string }) => name === 'team')
  expect(team.locations).toContain(team.primary)
  expect(Object.assign({}, ...Object.values(locations))).toHaveProperty(team.primary)
  await cli.sendRequest('PATCH', `${ORGANIZATION}/groups/team/configuration`, { delete_protection: false })
  await cli.sendRequest('POST', `${ORGANIZATION}/groups/team/rename`, { Name: 'crew' })
  expect((await cli.try('GET', `${ORGANIZATION}/groups/crew/locations/lhr/wait`)).status).toBe(404)

  // db create, import
  const { database } = await cli.sendRequest('POST', `${ORGANIZATION}/databases`, {
    name: 'app',
    location: 'ams',
    group: 'crew',
  })
  const directory = createTemporaryDirectory()
  const form = new FormData()
  form.append('file', new Blob(['BEGIN; CREATE TABLE t (a); INSERT INTO t VALUES (42); COMMIT;']), 'dump.sql')
  const uploadReply = await fetch(`${harness.platform.url}${ORGANIZATION}/databases/dumps`, {
    method: 'POST',
    headers: { authorization: `Bearer ${cli.token}` },
    body: form,
  })
  const { dump_url: url } = (await uploadReply.json()) as { dump_url: string }
  const imported = await cli.sendRequest('POST', `${ORGANIZATION}/databases`, {
    name: 'imported',
    group: 'crew',
    seed: { type: 'dump', url },
  })
  await cli.sendRequest('POST', `${ORGANIZATION}/databases`, {
    name: 'branch',
    group: 'crew',
    seed: { type: 'database', value: 'imported' },
  })

  // db list, show
  const first = await cli.sendRequest('GET', `${ORGANIZATION}/databases?limit=2`)
  const second = await cli.sendRequest(
    'GET',
    `${ORGANIZATION}/databases?limit=2&cursor=${first.pagination.next}`,
  )
  expect(second.pagination.next).toBeNull()
  const listedDatabases = [...first.databases, ...second.databases]
  expect(listedDatabases.map(({ Name }) => Name)).toEqual(['default', 'app', 'imported', 'branch'])
  // this field makes the CLI use plain HTTP
  expect(listedDatabases.every(({ primaryRegion }) => primaryRegion === 'local')).toBe(true)
  const usage = (await cli.sendRequest('GET', `${ORGANIZATION}/databases/app/usage`)).database
  expect(usage.usage).toMatchObject({ rows_read: expect.any(Number) })
  const [instance] = (await cli.sendRequest('GET', `${ORGANIZATION}/databases/app/instances`)).instances
  expect(instance).toMatchObject({ type: 'primary', hostname: database.Hostname })

  // db shell, .dump, tokens, inspect
  const { jwt } = await cli.sendRequest(
    'POST',
    `${ORGANIZATION}/databases/imported/auth/tokens?expiration=2d`,
    {},
  )
  const host = `http://${imported.database.Hostname}`
  const shell = await fetch(`${host}/v2/pipeline`, {
    method: 'POST',
    headers: { authorization: `Bearer ${jwt}` },
    body: JSON.stringify({
      requests: [
        { type: 'batch', batch: { steps: [{ stmt: { sql: 'select a from t', want_rows: true } }] } },
        { type: 'close' },
      ],
    }),
  })
  expect(await shell.text()).toContain('"value":"42"')
  const dump = await fetch(`${host}/dump`, { headers: { authorization: `Bearer ${jwt}` } })
  expect(await dump.text()).toContain('INSERT INTO t VALUES(42)')
  const queries = await cli.sendRequest(
    'GET',
    `${ORGANIZATION}/databases/imported/usage/queries?from=2024-01-01T00:00:00Z`,
  )
  expect(Array.isArray(queries)).toBe(true)
  await cli.sendRequest(
    'POST',
    `${ORGANIZATION}/groups/crew/auth/tokens?expiration=never&authorization=read-only`,
    {},
  )

  // db export sends its request to the bare host; the token determines the database
  const [origin] = host.replace('http://', '').split('/')
  const info = await fetch(`http://${origin}/info`, { headers: { authorization: `Bearer ${jwt}` } })
  const { current_generation: generation } = (await info.json()) as { current_generation: number }
  const exportReply = await fetch(`http://${origin}/export/${generation}`, {
    headers: { authorization: `Bearer ${jwt}` },
  })
  const file = join(directory, 'exported.db')
  await writeFile(file, Buffer.from(await exportReply.arrayBuffer()))
  const exportedDatabase = new DatabaseSync(file, { readOnly: true })
  expect(exportedDatabase.prepare('SELECT a FROM t').all()).toEqual([{ a: 42 }])
  exportedDatabase.close()
  const frames = await fetch(`http://${origin}/sync/${generation}/1/1`, {
    headers: { authorization: `Bearer ${jwt}` },
  })
  expect(frames.status).toBe(404)
  expect((await fetch(`http://${origin}/export/${generation}`)).status).toBe(401)
  const { bytes_synced: bytes } = (await cli.sendRequest('GET', `${ORGANIZATION}/databases/imported/usage`))
    .database.usage
  expect(bytes).toBeGreaterThanOrEqual(4_096)

  // db config: null leaves a setting unchanged
  await cli.sendRequest('PATCH', `${ORGANIZATION}/databases/app/configuration`, {
    allow_attach: null,
    delete_protection: true,
  })
  expect(await cli.sendRequest('GET', `${ORGANIZATION}/databases/app/configuration`)).toMatchObject({
    delete_protection: true,
  })
  // 403 would make the CLI reset the selected organization
  expect((await cli.try('DELETE', `${ORGANIZATION}/databases/app`)).status).toBe(400)
  await cli.sendRequest('PATCH', `${ORGANIZATION}/databases/app/configuration`, {
    allow_attach: null,
    delete_protection: false,
  })

  // auth api-tokens
  const createdToken = await cli.sendRequest('POST', '/v2/auth/api-tokens/ci', {
    organization: 'local',
    group: 'crew',
    scopes: ['read-only'],
  })
  expect(createdToken.token.value).toMatch(/^ey/)
  expect((await cli.sendRequest('GET', '/v1/auth/api-tokens')).tokens).toContainEqual(
    expect.objectContaining({
      name: 'ci',
      group: 'crew',
      scopes: ['read'],
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
    }),
  )
  await cli.sendRequest('DELETE', '/v1/auth/api-tokens/ci')

  // db tokens invalidate, destroy; group destroy; audit log
  await cli.sendRequest('POST', `${ORGANIZATION}/databases/imported/auth/rotate`)
  expect((await fetch(`${host}/dump`, { headers: { authorization: `Bearer ${jwt}` } })).status).toBe(401)
  for (const name of ['app', 'imported', 'branch'])
    await cli.sendRequest('DELETE', `${ORGANIZATION}/databases/${name}`)
  await cli.sendRequest('DELETE', `${ORGANIZATION}/groups/crew`)
  const { audit_logs: logs, pagination } = await cli.sendRequest(
    'GET',
    `${ORGANIZATION}/audit-logs?page=1&page_size=25`,
  )
  expect(logs[0]).toMatchObject({ code: 'group-delete', origin: 'cli', author: 'owner' })
  expect(pagination).toMatchObject({ page: 1, page_size: 25, total_rows: logs.length })

  // without a selected organization; auth logout --all
  expect((await cli.sendRequest('GET', '/v1/databases?limit=1000')).databases).toHaveLength(1)
  expect((await cli.sendRequest('GET', '/v1/organizations//members')).members).toMatchObject([
    { username: 'owner' },
  ])
  expect((await cli.sendRequest('POST', '/v1/auth/invalidate')).ValidFrom).toBeGreaterThan(1_700_000_000)
  expect((await cli.try('GET', '/v1/auth/validate')).status).toBe(401)
})
