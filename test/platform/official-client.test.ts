import { createClient } from '@tursodatabase/api'
import { expect, inject, test } from 'vitest'
import { Harness, sql } from './platform-harness.ts'

test('@tursodatabase/api manages groups, databases and tokens', async () => {
  const harness = await Harness.forTest()
  const { platform } = harness
  // without the trailing slash, the client omits the version
  const turso = createClient({
    org: platform.organization,
    token: platform.token,
    baseUrl: `${platform.url}/v1/`,
  })
  expect(await turso.locations.list()).toContainEqual({ code: 'local', description: 'This machine' })
  expect(await turso.groups.create('team', 'ams')).toMatchObject({ name: 'team', primary: 'ams' })
  expect((await turso.groups.list()).map(({ name }) => name)).toEqual(['default', 'team'])

  const created = await turso.databases.create('app', { group: 'team' })
  expect(created).toMatchObject({ name: 'app' })
  const database = await turso.databases.get('app')
  expect(database).toMatchObject({ id: created.id, hostname: created.hostname, group: 'team' })
  // the client also sends an empty list of permissions
  const { jwt } = await turso.databases.createToken('app', { expiration: '1h', authorization: 'full-access' })
  await sql(created.hostname, jwt, ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
  const copy = await turso.databases.create('copy', {
    group: 'team',
    seed: { type: 'database', name: 'app' },
  })
  const copyToken = await turso.databases.createToken('copy')
  expect((await sql(copy.hostname, copyToken.jwt, 'SELECT a FROM t')).rows).toEqual([['1']])
  expect((await turso.databases.usage('app')).usage).toMatchObject({ rows_written: expect.any(Number) })
  expect((await turso.databases.listInstances('app')).map(({ type }) => type)).toEqual(['primary'])
  expect((await turso.databases.list()).map(({ name }) => name)).toEqual(['default', 'app', 'copy'])

  const token = await turso.apiTokens.create('ci')
  expect(token.token).toMatch(/^ey/)
  expect((await turso.apiTokens.list()).map(({ name }) => name)).toContain('ci')
  await turso.apiTokens.revoke('ci')
  expect((await turso.organizations.members()).map(({ username }) => username)).toEqual(['owner'])

  await expect(turso.databases.get('nowhere')).rejects.toMatchObject({ status: 404 })
  await expect(turso.databases.create('app', { group: 'team' })).rejects.toMatchObject({ status: 409 })
  await turso.databases.delete('copy')
  await turso.groups.delete('team')
  expect((await turso.databases.list()).map(({ name }) => name)).toEqual(['default'])
})

test('every method of @tursodatabase/api works, except those with bugs in the client', async () => {
  const harness = await Harness.forTest()
  const { platform } = harness
  await platform.createUser({ username: 'ann' })
  await platform.createUser({ username: 'bob' })
  await harness.requestOk('POST', 'members', { body: { username: 'bob' } })
  await harness.requestOk('POST', '/v1/organizations', { body: { name: 'doomed' } })
  const createClientFor = (org: string) =>
    createClient({ org, token: platform.token, baseUrl: `${platform.url}/v1/` })
  const turso = createClientFor(platform.organization)
  const { apiTokens, organizations, locations, groups, databases } = turso
  const { uuid: groupId } = (await groups.create('default-too', 'local')) as unknown as { uuid: string }
  const fork = { type: 'database' as const, name: 'app' }
  const token = { expiration: '1h', authorization: 'read-only' } as const

  // called in this order
  const calls: Readonly<Record<string, () => Promise<unknown>>> = {
    'groups.create': () => groups.create('team', 'ams'),
    'groups.list': () => groups.list(),
    'groups.get': () => groups.get('team'),
    'groups.createToken': () => groups.createToken('team', token),
    'databases.create': () => databases.create('app', { groupId }),
    'databases.create a copy': () => databases.create('copy', { group: 'team', seed: fork }),
    'databases.list': () => databases.list({ group: 'default-too' }),
    'databases.get': () => databases.get('app'),
    'databases.updateVersion': () => databases.updateVersion('app'),
    'databases.listInstances': () => databases.listInstances('app'),
    'databases.getInstance': () => databases.getInstance('app', 'local'),
    'databases.createToken': () => databases.createToken('app', token),
    'databases.rotateTokens': () => databases.rotateTokens('app'),
    'databases.usage': () => databases.usage('app', { from: new Date(0), to: new Date() }),
    'databases.delete': () => databases.delete('copy'),
    'groups.rotateTokens': () => groups.rotateTokens('team'),
    'groups.delete': () => groups.delete('team'),
    'locations.list': () => locations.list(),
    'apiTokens.create': () => apiTokens.create('ci'),
    'apiTokens.list': () => apiTokens.list(),
    'apiTokens.validate': () => apiTokens.validate(platform.token),
    'apiTokens.revoke': () => apiTokens.revoke('ci'),
    'organizations.list': () => organizations.list(),
    'organizations.update': () => organizations.update({ overages: true }),
    'organizations.members': () => organizations.members(),
    'organizations.addMember': () => organizations.addMember('ann', 'member'),
    'organizations.removeMember': () => organizations.removeMember('bob'),
    'organizations.inviteUser': () => organizations.inviteUser('eve@example.test', 'member'),
    'organizations.listInvites': () => organizations.listInvites(),
    'organizations.deleteInvite': () => organizations.deleteInvite('eve@example.test'),
    'organizations.invoices': () => organizations.invoices(),
    'organizations.delete': () => createClientFor('doomed').organizations.delete(),
  }
  // these need a back end with replicas; the last one is sent to another host
  const excluded = ['groups.addLocation', 'groups.removeLocation', 'locations.closest']
  const parts = Object.entries({ apiTokens, organizations, locations, groups, databases })
  const methods = parts.flatMap(([part, { constructor }]) =>
    Object.entries(Object.getOwnPropertyDescriptors(constructor.prototype))
      .filter(([name, { value }]) => typeof value === 'function' && !/^(?:constructor|format)/.test(name))
      .map(([name]) => `${part}.${name}`),
  )
  const covered = new Set([...Object.keys(calls).map((name) => name.replace(/ .*/, '')), ...excluded])
  expect([...covered].toSorted()).toEqual(methods.toSorted())

  const failures: Record<string, unknown> = {}
  for (const [name, call] of Object.entries(calls))
    await call().catch((error: Error & { status?: number }) => {
      failures[name] = error.status ?? error.name
    })
  expect(failures).toEqual({
    // an empty body, which the client parses as JSON
    'databases.rotateTokens': 'SyntaxError',
    'groups.rotateTokens': 'SyntaxError',
    'organizations.deleteInvite': 'SyntaxError',
    'organizations.delete': 'SyntaxError',
    // paths that do not exist, or that the service has withdrawn
    'databases.updateVersion': 404,
    'apiTokens.validate': 404,
    'organizations.addMember': 404,
  })
  expect((await databases.get('app')).group).toBe('default-too')
  // the body itself is the list, as documented, not a field of it
  expect(await organizations.list()).toEqual([])
  const location = groups
    .addLocation('default-too', 'fra')
    .then(() => groups.removeLocation('default-too', 'fra'))
  if (inject('target') === 'sqld') expect(await location).toMatchObject({ name: 'default-too' })
  else await expect(location).rejects.toMatchObject({ status: 501 })
})
