import { createClient } from '@tursodatabase/api'
import { expect, test } from 'vitest'
import { Scene, sql } from './platform-scene.ts'

test('@tursodatabase/api: the calls that it gets right', async () => {
  const scene = await Scene.forTest()
  const { platform } = scene
  // without the slash at the end it loses the version
  const turso = createClient({
    org: platform.organization,
    token: platform.token,
    baseUrl: `${platform.url}/v1/`,
  })
  expect(await turso.locations.list()).toContainEqual({ code: 'local', description: 'This machine' })
  expect(await turso.groups.create('team', 'ams')).toMatchObject({ name: 'team', primary: 'ams' })
  expect((await turso.groups.list()).map(({ name }) => name)).toEqual(['default', 'team'])
  await turso.groups.addLocation('team', 'fra')
  await turso.groups.removeLocation('team', 'fra')

  const created = await turso.databases.create('app', { group: 'team' })
  expect(created).toMatchObject({ name: 'app' })
  const found = await turso.databases.get('app')
  expect(found).toMatchObject({ id: created.id, hostname: created.hostname, group: 'team' })
  // it sends an empty list of permissions along
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
