import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { Harness } from './platform-harness.ts'
import { VendorSession } from './recorded-session.ts'

/*
 * The vendor's CLI is a Go program that cannot be installed everywhere. This test sends its recorded requests, command by
 * command, with the same headers and bodies, and checks the fields of the responses that the CLI reads.
 */

const ORGANIZATION_V2 = '/v2/organizations/local'

test('serves a session of the CLI from login to logout', async () => {
  const harness = await Harness.forTest()
  const cli = new VendorSession(harness.platform)

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
  const { organizations } = await cli.sendRequest('GET', '/v2/organizations')
  expect(organizations).toMatchObject([{ slug: 'local', type: 'personal' }])
  const { members } = await cli.sendRequest('GET', 'members')
  expect(members).toMatchObject([{ username: 'owner', role: 'owner' }])
  await cli.sendRequest('POST', 'invite', { email: 'ann@example.test', role: 'member' })
  const { invites } = await cli.sendRequest('GET', 'invites')
  expect(invites).toMatchObject([{ Email: 'ann@example.test', Accepted: false }])
  await cli.sendRequest('DELETE', 'invites/ann@example.test')
  const { plans } = await cli.sendRequest('GET', '/v1/plans')
  expect(plans[0]).toMatchObject({ price: '0', quotas: { groups: 1 } })
  expect((await cli.sendRequest('GET', 'subscription')).subscription).toMatchObject({ plan: 'scaler' })

  // org create, destroy
  await cli.sendRequest('POST', '/v1/organizations?dry_run=true', { name: 'second' })
  expect((await cli.try('POST', '/v1/organizations/stripe-customer', { Name: 'second' })).status).toBe(501)
  const { org } = await cli.sendRequest('POST', '/v1/organizations?dry_run=false', { name: 'second' })
  expect(org.slug).toBe('second')
  await cli.sendRequest('POST', '/v1/organizations/second/subscription', { plan: 'scaler' })
  expect((await cli.try('POST', '/v1/organizations?dry_run=true', { name: 'second' })).status).toBe(409)
  await cli.sendRequest('DELETE', '/v1/organizations/second')

  // group create, list, locations
  const locations = (await cli.sendRequest('GET', `${ORGANIZATION_V2}/locations`)).locations
  await cli.sendRequest('POST', 'groups', { Name: 'team', Location: 'ams', Version: '' })
  await cli.sendRequest('GET', 'groups/team/locations/ams/wait')
  const { groups } = await cli.sendRequest('GET', 'groups')
  const team = groups.find(({ name }: { name: string }) => name === 'team')
  expect(team.locations).toContain(team.primary)
  expect(Object.assign({}, ...Object.values(locations))).toHaveProperty(team.primary)
  await cli.sendRequest('PATCH', 'groups/team/configuration', { delete_protection: false })
  await cli.sendRequest('POST', 'groups/team/rename', { Name: 'crew' })
  expect((await cli.try('GET', 'groups/crew/locations/lhr/wait')).status).toBe(404)

  // db create, import
  const app = { name: 'app', location: 'ams', group: 'crew' }
  const { database } = await cli.sendRequest('POST', 'databases', app)
  const directory = createTemporaryDirectory()
  const form = new FormData()
  form.append('file', new Blob(['BEGIN; CREATE TABLE t (a); INSERT INTO t VALUES (42); COMMIT;']), 'dump.sql')
  const uploadReply = await fetch(`${harness.platform.url}${harness.orgPath}/databases/dumps`, {
    method: 'POST',
    headers: { authorization: `Bearer ${cli.token}` },
    body: form,
  })
  const { dump_url: url } = (await uploadReply.json()) as { dump_url: string }
  const create = (name: string, seed: object) =>
    cli.sendRequest('POST', 'databases', { name, group: 'crew', seed })
  const imported = await create('imported', { type: 'dump', url })
  await create('branch', { type: 'database', value: 'imported' })

  // db list, show
  const first = await cli.sendRequest('GET', 'databases?limit=2')
  const second = await cli.sendRequest('GET', `databases?limit=2&cursor=${first.pagination.next}`)
  expect(second.pagination.next).toBeNull()
  const listedDatabases = [...first.databases, ...second.databases]
  expect(listedDatabases.map(({ Name }) => Name)).toEqual(['default', 'app', 'imported', 'branch'])
  // this field makes the CLI use plain HTTP
  expect(listedDatabases.every(({ primaryRegion }) => primaryRegion === 'local')).toBe(true)
  const usage = (await cli.sendRequest('GET', 'databases/app/usage')).database
  expect(usage.usage).toMatchObject({ rows_read: expect.any(Number) })
  const [instance] = (await cli.sendRequest('GET', 'databases/app/instances')).instances
  expect(instance).toMatchObject({ type: 'primary', hostname: database.Hostname })

  // db shell, .dump, tokens, inspect
  const { jwt } = await cli.sendRequest('POST', 'databases/imported/auth/tokens?expiration=2d', {})
  const headers = { authorization: `Bearer ${jwt}` }
  const host = `http://${imported.database.Hostname}`
  const steps = [{ stmt: { sql: 'select a from t', want_rows: true } }]
  const body = JSON.stringify({ requests: [{ type: 'batch', batch: { steps } }, { type: 'close' }] })
  const shell = await fetch(`${host}/v2/pipeline`, { method: 'POST', headers, body })
  expect(await shell.text()).toContain('"value":"42"')
  const dump = await fetch(`${host}/dump`, { headers })
  expect(await dump.text()).toContain('INSERT INTO t VALUES(42)')
  const queriesPath = 'databases/imported/usage/queries?from=2024-01-01T00:00:00Z'
  expect(Array.isArray(await cli.sendRequest('GET', queriesPath))).toBe(true)
  await cli.sendRequest('POST', 'groups/crew/auth/tokens?expiration=never&authorization=read-only', {})

  // db export sends its request to the bare host; the token determines the database
  const [origin] = host.replace('http://', '').split('/')
  const info = await fetch(`http://${origin}/info`, { headers })
  const { current_generation: generation } = (await info.json()) as { current_generation: number }
  const exportReply = await fetch(`http://${origin}/export/${generation}`, { headers })
  const file = join(directory, 'exported.db')
  await writeFile(file, Buffer.from(await exportReply.arrayBuffer()))
  const exportedDatabase = new DatabaseSync(file, { readOnly: true })
  expect(exportedDatabase.prepare('SELECT a FROM t').all()).toEqual([{ a: 42 }])
  exportedDatabase.close()
  expect((await fetch(`http://${origin}/sync/${generation}/1/1`, { headers })).status).toBe(404)
  expect((await fetch(`http://${origin}/export/${generation}`)).status).toBe(401)
  const importedUsage = (await cli.sendRequest('GET', 'databases/imported/usage')).database.usage
  expect(importedUsage.bytes_synced).toBeGreaterThanOrEqual(4_096)

  // db config: null leaves a setting unchanged
  const configuration = 'databases/app/configuration'
  await cli.sendRequest('PATCH', configuration, { allow_attach: null, delete_protection: true })
  expect(await cli.sendRequest('GET', configuration)).toMatchObject({ delete_protection: true })
  // 403 would make the CLI reset the selected organization
  expect((await cli.try('DELETE', 'databases/app')).status).toBe(400)
  await cli.sendRequest('PATCH', configuration, { allow_attach: null, delete_protection: false })

  // auth api-tokens
  const permissions = { organization: 'local', group: 'crew', scopes: ['read-only'] }
  const { token } = await cli.sendRequest('POST', '/v2/auth/api-tokens/ci', permissions)
  expect(token.value).toMatch(/^ey/)
  const created_at = expect.stringMatching(/^\d{4}-\d\d-\d\d$/)
  const listed = { name: 'ci', group: 'crew', scopes: ['read'], created_at }
  const { tokens } = await cli.sendRequest('GET', '/v1/auth/api-tokens')
  expect(tokens).toContainEqual(expect.objectContaining(listed))
  await cli.sendRequest('DELETE', '/v1/auth/api-tokens/ci')

  // db tokens invalidate, destroy; group destroy; audit log
  await cli.sendRequest('POST', 'databases/imported/auth/rotate')
  expect((await fetch(`${host}/dump`, { headers })).status).toBe(401)
  for (const name of ['app', 'imported', 'branch']) await cli.sendRequest('DELETE', `databases/${name}`)
  await cli.sendRequest('DELETE', 'groups/crew')
  const { audit_logs: logs, pagination } = await cli.sendRequest('GET', 'audit-logs?page=1&page_size=25')
  expect(logs[0]).toMatchObject({ code: 'group-delete', origin: 'cli', author: 'owner' })
  expect(pagination).toMatchObject({ page: 1, page_size: 25, total_rows: logs.length })

  // without a selected organization; auth logout --all
  expect((await cli.sendRequest('GET', '/v1/databases?limit=1000')).databases).toHaveLength(1)
  const ownMembers = (await cli.sendRequest('GET', '/v1/organizations//members')).members
  expect(ownMembers).toMatchObject([{ username: 'owner' }])
  expect((await cli.sendRequest('POST', '/v1/auth/invalidate')).ValidFrom).toBeGreaterThan(1_700_000_000)
  expect((await cli.try('GET', '/v1/auth/validate')).status).toBe(401)
})
