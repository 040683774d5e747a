import { describe, expect, test } from 'vitest'
import { close, execute } from '../server/wire.ts'
import { sendHttp } from '../support/send-http.ts'
import { Harness, sql } from './platform-harness.ts'

/** Creates a user who has an organization with a group, and a token with access to it. */
async function createNeighbor(harness: Harness, slug = 'other') {
  const token = await harness.platform.createUser({ username: `owner-of-${slug}` })
  await harness.createOrganization(slug, token)
  return { token, orgPath: `/v1/organizations/${slug}`, slug }
}

describe('groups', () => {
  test('deleting a group also removes its databases and tokens; a new group with the same name has none of them', async () => {
    const harness = await Harness.forTest()
    const { platform } = harness
    const createGroup = () => harness.createGroup('team')
    const { group: oldGroup } = await createGroup()
    const { host, token } = await harness.openDatabase('app', [], { group: 'team' })
    const { jwt } = await harness.requestOk('POST', 'groups/team/auth/tokens')
    const robot = { organization: platform.organization, group: 'team', scopes: ['full-access'] }
    const apiToken = await harness.createApiToken('robot', robot)
    expect(await harness.statusOf('GET', 'databases/app', { token: apiToken })).toBe(200)
    await harness.requestOk('DELETE', 'groups/team')
    for (const oldToken of [token, jwt]) expect((await sql(host, oldToken, 'SELECT 1')).status).toBe(404)
    const { group: newGroup } = await createGroup()
    expect(newGroup.uuid).not.toBe(oldGroup.uuid)
    expect(await harness.statusOf('GET', 'groups/team', { token: apiToken })).toBe(401)
    expect(await harness.requestOk('GET', 'databases?group=team')).toEqual({ databases: [] })
    const newDatabase = await harness.createDatabase('app', { group: 'team' })
    for (const oldToken of [token, jwt])
      expect((await sql(newDatabase.host, oldToken, 'SELECT 1')).status).toBe(401)
  })

  test('a transfer moves the databases with their rows; all tokens become invalid', async () => {
    const harness = await Harness.forTest()
    const { orgPath, platform } = harness
    await harness.createGroup('team')
    const statements = ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)']
    const { host, token } = await harness.openDatabase('app', statements, { group: 'team' })
    const robot = { organization: platform.organization, group: 'team', scopes: ['full-access'] }
    const apiToken = await harness.createApiToken('robot', robot)
    const outsider = await createNeighbor(harness)
    const transfer = (organization: string) =>
      harness.sendRequest('POST', 'groups/team/transfer', { body: { organization } })
    // to non-members, the organization does not exist
    for (const unknown of ['other', 'nowhere'])
      expect(await transfer(unknown)).toEqual({ status: 404, body: { error: 'organization not found' } })
    await harness.requestOk('POST', '/v1/organizations', { body: { name: 'mine' } })
    expect((await transfer('mine')).body).toMatchObject({ name: 'team', primary: 'local' })
    expect(await harness.statusOf('GET', 'databases/app')).toBe(404)
    expect(await harness.statusOf('GET', orgPath, { token: apiToken })).toBe(401)
    const { database } = await harness.requestOk('GET', '/v1/organizations/mine/databases/app')
    expect((await sql(database.Hostname, token, 'SELECT a FROM t')).status).toBe(401)
    const { jwt } = await harness.requestOk('POST', '/v1/organizations/mine/databases/app/auth/tokens')
    expect((await sql(database.Hostname, jwt, 'SELECT a FROM t')).rows).toEqual([['1']])
    expect((await sql(host, jwt, 'SELECT a FROM t')).status).toBe(404)
    const path = '/v1/organizations/mine/databases/app'
    expect(await harness.statusOf('GET', path, { token: outsider.token })).toBe(404)
  })

  test('returns the version of libsql-server, for clients that compare it', async () => {
    const harness = await Harness.forTest()
    const { group } = await harness.requestOk('GET', 'groups/default')
    expect(group.version).toMatch(/^v0\.24\.\d+$/)
  })

  test('an archived group is unavailable until it is unarchived', async () => {
    const harness = await Harness.forTest()
    const { host, token } = await harness.openDatabase('app')
    await harness.platform.archiveGroup('default')
    expect((await sql(host, token, 'SELECT 1')).status).toBe(502)
    const create = () => harness.tryToCreate({ name: 'late' })
    const wakeUp = () => harness.sendRequest('POST', 'databases/app/wakeup')
    const inGroup = { error: 'database app is part of a group, please unarchive the group instead' }
    expect(await wakeUp()).toEqual({ status: 400, body: inGroup })
    const archived = { error: 'cannot create database on group default because it is archived' }
    expect((await create()).body).toEqual(archived)
    expect((await harness.requestOk('GET', 'databases/app')).database.archived).toBe(true)
    await harness.requestOk('POST', 'groups/default/unarchive')
    expect((await sql(host, token, 'SELECT 1')).status).toBe(200)
    // groups never sleep, so there is nothing to wake up
    expect(await wakeUp()).toEqual({ status: 200, body: undefined })
    expect(await harness.statusOf('POST', 'databases/nowhere/wakeup')).toBe(404)
    expect((await create()).status).toBe(200)
    await expect(harness.platform.archiveGroup('nowhere')).rejects.toThrow('group "nowhere" does not exist')
  })

  test('a group’s name and delete protection can be changed', async () => {
    const harness = await Harness.forTest()
    const path = 'groups/default'
    const protect = (isProtected: boolean) =>
      harness.requestOk('PATCH', `${path}/configuration`, { body: { delete_protection: isProtected } })
    await protect(true)
    expect(await harness.statusOf('DELETE', path)).toBe(400)
    await protect(false)
    await harness.requestOk('POST', `${path}/rename`, { body: { Name: 'renamed' } })
    expect((await harness.sendRequest('GET', path)).body).toEqual({ error: 'group not found' })
    expect((await harness.requestOk('GET', 'databases/default')).database.group).toBe('renamed')
  })
})

describe('members and invites', () => {
  test('granting, changing and removing a role changes the permissions of tokens', async () => {
    const harness = await Harness.forTest()
    const { orgPath } = harness
    const token = await harness.platform.createUser({ username: 'bob', email: 'bob@example.test' })
    const create = () => harness.tryToCreate({ name: 'bobs' }, token)
    expect((await create()).status).toBe(404)
    await harness.requestOk('POST', 'members', { body: { username: 'bob', role: 'viewer' } })
    expect((await create()).status).toBe(403)
    expect(await harness.statusOf('POST', 'members', { body: { username: 'bob' } })).toBe(409)
    await harness.requestOk('PATCH', 'members/bob', { body: { role: 'member' } })
    expect((await create()).status).toBe(200)
    const scopedToken = await harness.createApiToken('scoped', { organization: 'local' }, token)
    expect(await harness.statusOf('GET', orgPath, { token: scopedToken })).toBe(200)
    // members may not create tokens for groups
    const request = { organization: 'local', group: 'default', scopes: ['read'] }
    expect(await harness.statusOf('POST', '/v1/auth/api-tokens/g', { token, body: request })).toBe(403)
    expect(await harness.requestOk('DELETE', 'members/bob')).toEqual({ member: 'bob' })
    expect(await harness.statusOf('GET', orgPath, { token })).toBe(404)
    expect(await harness.statusOf('GET', orgPath, { token: scopedToken })).toBe(401)
    const { audit_logs: entries } = await harness.requestOk('GET', 'audit-logs')
    // the user, and the token that was used
    expect(
      entries.map(
        ({ code, author, data }: { code: string; author: string; data: { acting_token: string } }) => [
          code,
          author,
          data.acting_token,
        ],
      ),
    ).toEqual([
      ['org-member-rm', 'owner', 'owner'],
      ['user-token-create', 'bob', 'bob'],
      ['db-create', 'bob', 'bob'],
      ['org-member-add', 'owner', 'owner'],
    ])
  })

  test('an invite is pending until a user with its address exists, is replaced by a new invite, and depends on the plan', async () => {
    const harness = await Harness.forTest()
    const path = '/v2/organizations/local/invites'
    await harness.requestOk('POST', path, { body: { email: 'ann@example.test', role: 'viewer' } })
    await harness.requestOk('POST', path, { body: { email: 'ann@example.test', role: 'admin' } })
    const { invites } = await harness.requestOk('GET', path)
    expect(invites).toMatchObject([{ email: 'ann@example.test', role: 'admin' }])
    const token = await harness.platform.createUser({ username: 'ann', email: 'ann@example.test' })
    const { members } = await harness.requestOk('GET', 'members', { token })
    expect(members).toContainEqual({ username: 'ann', email: 'ann@example.test', role: 'admin' })
    expect(await harness.requestOk('GET', path)).toEqual({ invites: [] })
    const deleted = await harness.sendRequest('DELETE', `${path}/ann@example.test`)
    expect(deleted.body).toEqual({ error: 'invite not found' })
    await harness.requestOk('POST', 'subscription', { body: { plan: 'starter' } })
    for (const paidPath of [path, 'audit-logs']) {
      const { status, body } = await harness.sendRequest('GET', paidPath)
      expect([status, body.code]).toEqual([402, 'feature_not_available_for_starter_plan'])
    }
  })
})

test('a user has an organization of the same name, and is its owner', async () => {
  const harness = await Harness.forTest()
  const token = await harness.platform.createUser({ username: 'bob' })
  const organizations = await harness.requestOk('GET', '/v1/organizations', { token })
  expect(organizations).toMatchObject([{ slug: 'bob', type: 'personal', plan_id: 'starter' }])
  const { usage } = (await harness.requestOk('GET', '/v1/organizations/bob/usage', { token })).organization
  expect(usage).toMatchObject({ databases: 0, groups: 0, rows_read: 0 })
  expect(await harness.statusOf('DELETE', '/v1/organizations/bob', { token })).toBe(400)
  // visible neither to other users nor to the owner of the server
  expect(await harness.statusOf('GET', '/v1/organizations/bob')).toBe(404)
  await harness.requestOk('POST', '/v1/organizations', { body: { name: 'taken' } })
  const taken = harness.platform.createUser({ username: 'taken' })
  await expect(taken).rejects.toThrow('organization "taken" already exists')
})

test('members whose role permits it can change the known fields of an organization', async () => {
  const harness = await Harness.forTest()
  const change = (body: object, token = harness.platform.token) =>
    harness.sendRequest('PATCH', harness.orgPath, { body, token })
  const settings = { overages: true, require_mfa: true }
  expect((await change(settings)).body.organization).toMatchObject(settings)
  expect((await harness.requestOk('GET', harness.orgPath)).organization).toMatchObject(settings)
  expect((await change({ overages: null })).body.organization).toMatchObject(settings)
  expect((await change({ ...settings, blocked_reads: true })).status).toBe(400)
  const token = await harness.platform.createUser({ username: 'bob' })
  await harness.requestOk('POST', 'members', { body: { username: 'bob', role: 'viewer' } })
  expect((await change({ overages: false }, token)).status).toBe(403)
  await harness.requestOk('PATCH', 'members/bob', { body: { role: 'member' } })
  expect((await change({ overages: false }, token)).body.organization.overages).toBe(false)
})

test('returns the actual usage and the allowance of the plan; a group token returns only its group’s usage', async () => {
  const harness = await Harness.forTest()
  const { platform } = harness
  await harness.requestOk('POST', 'subscription', { body: { plan: 'starter' } })
  await harness.requestOk('POST', 'groups', { body: { name: 'team', location: 'fra' } })
  for (const [name, group] of Object.entries({ app: 'default', other: 'team' })) {
    const { host, token } = await harness.openDatabase(name, [], { group })
    const statements = ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1), (2)', 'SELECT a FROM t']
    expect((await sql(host, token, statements)).error).toBeNull()
  }
  const getUsage = async (token = platform.token) =>
    (await harness.requestOk('GET', 'usage', { token })).organization
  const total = await getUsage()
  expect(total.usage).toMatchObject({ databases: 3, groups: 2, locations: 2 })
  expect(Object.keys(total.allowance).sort()).toEqual(Object.keys(total.usage).sort())
  expect(total.allowance).toMatchObject({ rows_written: 10_000_000, databases: 100, groups: 1 })
  const group = { organization: platform.organization, group: 'team' }
  const groupUsage = await getUsage(await harness.createApiToken('reader', { ...group, scopes: ['read'] }))
  expect(groupUsage.usage).toMatchObject({ databases: 1, groups: 1, locations: 1 })
  expect(groupUsage.databases).toHaveLength(1)
  expect(groupUsage.usage.rows_read).toBe(groupUsage.databases[0].total.rows_read)
  expect(groupUsage.usage.rows_read).toBeGreaterThan(0)
  expect(total.usage.rows_read).toBe(2 * groupUsage.usage.rows_read)
  const makerToken = await harness.createApiToken('maker', { ...group, scopes: ['db:create'] })
  expect(await harness.statusOf('GET', 'usage', { token: makerToken })).toBe(403)
})

test('paths without an organization refer to the caller’s own', async () => {
  const harness = await Harness.forTest()
  await harness.createDatabase('app')
  expect((await harness.requestOk('GET', '/v1/databases/app')).database.Name).toBe('app')
  const { token } = await createNeighbor(harness)
  expect(await harness.requestOk('GET', '/v1/databases', { token })).toEqual({ databases: [] })
})

describe('organizations that share a server', () => {
  test('cannot access each other by names, hosts, headers, paths, tokens or batons', async () => {
    const harness = await Harness.forTest()
    const neighbor = await createNeighbor(harness)
    const mine = await harness.createDatabase('app')
    const asNeighbor = (path: string, body?: object) =>
      harness.requestOk('POST', `${neighbor.orgPath}/${path}`, { token: neighbor.token, body })
    const { database: theirs } = await asNeighbor('databases', { name: 'app', group: 'default' })
    expect(mine.host).toMatch(/\/app$/)
    expect(theirs.Hostname).toMatch(/\/app-other$/)
    const ownToken = await harness.tokenFor('app')
    const { jwt: theirToken } = await asNeighbor('databases/app/auth/tokens')
    const { jwt: theirGroupToken } = await asNeighbor('groups/default/auth/tokens')
    await sql(mine.host, ownToken, ['CREATE TABLE t (a)', "INSERT INTO t VALUES ('mine')"])
    await sql(theirs.Hostname, theirToken, ['CREATE TABLE t (a)', "INSERT INTO t VALUES ('theirs')"])

    // tokens
    for (const token of [theirToken, theirGroupToken])
      expect((await sql(mine.host, token, 'SELECT a FROM t')).status).toBe(401)
    expect((await sql(theirs.Hostname, ownToken, 'SELECT a FROM t')).status).toBe(401)
    // batons, with the token of either
    const stream = await sql(mine.host, ownToken, ['BEGIN', 'SELECT 1'], { keepOpen: true })
    for (const [host, token] of [
      [theirs.Hostname, theirToken],
      [theirs.Hostname, ownToken],
      [mine.host, theirToken],
    ] as const) {
      const { status } = await sql(host, token, 'SELECT a FROM t', { baton: stream.baton })
      expect(status).toBeGreaterThanOrEqual(400)
    }
    // headers that name a different database from the one in the path
    for (const [name, value] of [
      ['x-namespace', 'app'],
      ['x-namespace', mine.id],
      ['x-namespace-bin', Buffer.from(mine.id).toString('base64').replaceAll('=', '')],
      ['x-authorization', `Bearer ${ownToken}`],
      ['x-proxy-authorization', `Bearer ${ownToken}`],
      ['x-forwarded-host', `app.local`],
    ] as const) {
      const headers = { authorization: `Bearer ${theirToken}`, [name]: value }
      const body = JSON.stringify({ requests: [execute('SELECT a FROM t'), close] })
      const { text } = await sendHttp(`http://${theirs.Hostname}/v2/pipeline`, {
        method: 'POST',
        headers,
        body,
      })
      expect([name, text]).toEqual([name, expect.stringContaining('"theirs"')])
    }
    // routes of the engine that accept the name or id of a database
    const [origin = ''] = mine.host.split('/')
    for (const path of [`/dev/${mine.id}`, `/${mine.id}`, '/app-other/../app', '/v1/execute'])
      expect((await sql(`${origin}${path}`, theirToken, 'SELECT a FROM t')).status).not.toBe(200)
    // names in ATTACH
    for (const name of ['app', mine.id]) {
      const attached = await sql(theirs.Hostname, theirToken, [`ATTACH "${name}" AS x`, 'SELECT a FROM x.t'])
      expect(attached.error ?? attached.status).not.toBe(200)
      expect(JSON.stringify(attached)).not.toContain('mine')
    }
    expect((await sql(mine.host, ownToken, 'SELECT a FROM t')).rows).toEqual([['mine']])
    expect((await sql(theirs.Hostname, theirToken, 'SELECT a FROM t')).rows).toEqual([['theirs']])
  })

  test('cannot access each other through the platform API', async () => {
    const harness = await Harness.forTest()
    const neighbor = await createNeighbor(harness)
    await harness.createDatabase('app')
    const organizationToken = await harness.createApiToken('org', { organization: 'other' }, neighbor.token)
    const robot = { organization: 'other', group: 'default', scopes: ['full-access'] }
    const groupToken = await harness.createApiToken('group', robot, neighbor.token)
    const notFound = { status: 404, body: { error: 'organization not found' } }
    for (const token of [neighbor.token, organizationToken, groupToken]) {
      // not 403, which would reveal that the organization exists
      for (const [method, path] of [
        ['GET', 'databases'],
        ['GET', 'databases/app'],
        ['DELETE', 'databases/app'],
        ['POST', 'databases/app/auth/tokens'],
        ['POST', 'databases/app/auth/rotate'],
        ['DELETE', 'groups/default'],
        ['GET', 'usage'],
      ] as const)
        expect([path, await harness.sendRequest(method, path, { token })]).toEqual([path, notFound])
      const organizations = await harness.requestOk('GET', '/v1/organizations', { token })
      const slugs = organizations.map(({ slug }: { slug: string }) => slug)
      expect(slugs).toEqual(token === neighbor.token ? ['owner-of-other', 'other'] : ['other'])
    }
    // a body that names a resource of the other organization
    const create = (body: object) =>
      harness.sendRequest('POST', `${neighbor.orgPath}/databases`, {
        token: neighbor.token,
        body: { group: 'default', ...body },
      })
    expect((await create({ name: 'x', seed: { type: 'database', name: 'app' } })).status).toBe(404)
    expect((await create({ name: 'x', schema: 'app' })).status).toBe(404)
    const url = await harness.uploadDump('CREATE TABLE secret (a)')
    const created = await create({ name: 'x', seed: { type: 'dump', url } })
    expect(created.body).toEqual({ error: 'dump not found' })
    // addresses are shared: a conflicting one is rejected with an error
    await harness.createDatabase('x-other')
    expect((await create({ name: 'x' })).status).toBe(422)
    expect((await create({ name: 'y' })).status).toBe(200)
    const conflicting = await harness.tryToCreate({ name: 'y-other' })
    expect(conflicting.status).toBe(422)
  })

  test('a group token can access only its own group', async () => {
    const harness = await Harness.forTest()
    await harness.createGroup('team')
    await harness.createDatabase('inside', { group: 'team' })
    await harness.createDatabase('outside')
    const robot = { organization: 'local', group: 'team', scopes: ['full-access'] }
    const token = await harness.createApiToken('robot', robot)
    expect((await harness.requestOk('GET', 'databases', { token })).databases).toMatchObject([
      { Name: 'inside' },
    ])
    expect((await harness.requestOk('GET', 'groups', { token })).groups).toHaveLength(1)
    for (const [method, path] of [
      ['GET', 'databases/outside'],
      ['DELETE', 'databases/outside'],
      ['PATCH', 'databases/outside/configuration'],
      ['POST', 'databases/outside/auth/tokens'],
      ['POST', 'databases/outside/auth/rotate'],
      ['GET', 'groups/default'],
      ['POST', 'groups/default/auth/rotate'],
    ] as const) {
      const options = { token, ...(method === 'PATCH' && { body: {} }) }
      expect([path, await harness.statusOf(method, path, options)]).toEqual([path, 404])
    }
    const create = (body: object) => harness.sendRequest('POST', 'databases', { token, body })
    expect((await create({ name: 'x', group: 'default' })).body).toEqual({ error: 'group not found' })
    const seed = { type: 'database', name: 'outside' }
    expect((await create({ name: 'x', group: 'team', seed })).status).toBe(404)
    expect((await create({ name: 'x', group: 'team' })).status).toBe(200)
  })
})

test('with a domain, every database has its own host', async () => {
  const harness = await Harness.forTest({ domain: 'db.test:8443' })
  const created = await harness.requestOk('POST', 'databases', { body: { name: 'a-b', group: 'default' } })
  expect(created.database.Hostname).toBe('a-b-local.db.test:8443')
  const token = await harness.tokenFor('a-b')
  const getStatus = async (host: string): Promise<number> => {
    const headers = { host, authorization: `Bearer ${token}` }
    const url = `${harness.server.url}/v2/pipeline`
    return (await sendHttp(url, { method: 'POST', headers, body: '{"requests":[]}' })).status
  }
  expect(await getStatus('a-b-local.db.test:8443')).toBe(200)
  expect(await getStatus('b-local.db.test:8443')).toBe(404)
  expect(await getStatus('a-b-local.db.test.evil.example')).toBe(403)
  expect(await getStatus('db.test')).toBe(403)
})
