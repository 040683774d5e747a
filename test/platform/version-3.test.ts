import { expect, test } from 'vitest'
import { Harness, sql } from './platform-harness.ts'

// Version 3 of the API, which uses ids in paths and bodies. The vendor's CLI sends these requests with `--v3-api`.

async function startHarness() {
  const harness = await Harness.forTest()
  const { group } = await harness.createGroup('team')
  const orgPath = `/v3/organizations/${await harness.organizationId()}`
  return { harness, orgPath, groupId: group.uuid as string }
}

test('creates, shows, uses, copies and deletes a database by ids', async () => {
  const { harness, orgPath, groupId } = await startHarness()
  const { database } = await harness.requestOk('POST', `${orgPath}/databases`, {
    body: { name: 'app', group_id: groupId },
  })
  expect(database).toMatchObject({
    name: 'app',
    group: 'team',
    parent: null,
    // makes the CLI use plain HTTP
    primaryRegion: 'local',
    delete_protection: false,
    allow_rules_config: { allowed_ips: [], allowed_aws_vpc_ids: [] },
  })
  const path = `${orgPath}/databases/${database.dbId}`
  const body = { delete_protection: true, allowed_ips: ['127.0.0.1'] }
  await harness.requestOk('PATCH', `${harness.orgPath}/databases/app/configuration`, { body })
  expect((await harness.requestOk('GET', path)).database).toEqual({
    ...database,
    delete_protection: true,
    allow_rules_config: { allowed_ips: ['127.0.0.1'], allowed_aws_vpc_ids: [] },
  })

  const { jwt } = await harness.requestOk('POST', `${path}/auth/tokens?expiration=1h`, { body: {} })
  const { jwt: reader } = await harness.requestOk('POST', `${path}/auth/tokens?authorization=read-only`, {
    body: {},
  })
  await sql(database.hostname, jwt, ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (42)'])
  expect((await sql(database.hostname, reader, 'SELECT a FROM t')).rows).toEqual([['42']])
  expect((await sql(database.hostname, reader, 'DELETE FROM t')).error).not.toBeNull()

  // a copy is in the group of its source
  const { database: copy } = await harness.requestOk('POST', `${orgPath}/databases`, {
    body: { name: 'copy', seed: { type: 'database', value: 'app' } },
  })
  expect(copy).toMatchObject({ group: 'team', parent: { id: database.dbId, name: 'app' } })
  const { jwt: groupToken } = await harness.requestOk('POST', `${orgPath}/groups/${groupId}/auth/tokens`, {
    body: {},
  })
  expect((await sql(copy.hostname, groupToken, 'SELECT a FROM t')).rows).toEqual([['42']])

  expect((await harness.sendRequest('DELETE', path)).status).toBe(400)
  await harness.requestOk('PATCH', `${harness.orgPath}/databases/app/configuration`, {
    body: { delete_protection: false },
  })
  expect(await harness.sendRequest('DELETE', path)).toMatchObject({ status: 200, body: undefined })
  expect(await harness.sendRequest('GET', path)).toMatchObject({
    status: 404,
    body: { error: `could not find database with id ${database.dbId}: record not found` },
  })
})

test('lists databases with filters and in pages, and groups as in version 1', async () => {
  const { harness, orgPath, groupId } = await startHarness()
  const { id } = await harness.createDatabase('app', { group: 'team' })
  await harness.createDatabase('other')
  await harness.createDatabase('copy', { group: 'team', seed: { type: 'database', name: 'app' } })
  const listNames = async (query: string) => {
    const { databases, pagination } = await harness.requestOk('GET', `${orgPath}/databases${query}`)
    return { names: databases.map(({ name }: { name: string }) => name), next: pagination?.next }
  }
  expect((await listNames('')).names).toEqual(['default', 'app', 'other', 'copy'])
  expect((await listNames(`?group_id=${groupId}`)).names).toEqual(['app', 'copy'])
  expect((await listNames(`?parent_db_id=${id}`)).names).toEqual(['copy'])
  expect((await listNames('?group_id=team')).names).toEqual([])
  const firstPage = await listNames('?limit=3')
  expect(firstPage.names).toEqual(['default', 'app', 'other'])
  expect(await listNames(`?limit=3&cursor=${firstPage.next}`)).toEqual({ names: ['copy'], next: null })
  expect((await harness.sendRequest('GET', `${orgPath}/databases?limit=none`)).status).toBe(400)

  const { groups } = await harness.requestOk('GET', `${orgPath}/groups`)
  expect(groups).toEqual((await harness.requestOk('GET', `${harness.orgPath}/groups`)).groups)
  const { group } = await harness.requestOk('GET', `${orgPath}/groups/${groupId}`)
  expect(group).toEqual(groups[1])
})

test('an id is found only if the token has access to it, and a name is not an id', async () => {
  const { harness, orgPath, groupId } = await startHarness()
  const { id } = await harness.createDatabase('app', { group: 'team' })
  const { id: outside } = await harness.createDatabase('outside')
  const outsider = await harness.platform.createUser({ username: 'stranger' })
  const { organizations } = await harness.requestOk('GET', '/v2/organizations', { token: outsider })
  const foreign = `/v3/organizations/${organizations[0].id}`
  const teamToken = await harness.createApiToken('of-team', {
    organization: 'local',
    group: 'team',
    scopes: ['full-access'],
  })

  const statusOf = async (path: string, token = harness.platform.token) =>
    (await harness.sendRequest('GET', path, { token })).status
  expect(await statusOf(`${foreign}/databases`, outsider)).toBe(200)
  // the organization, database and group of another user are not found
  expect(await statusOf(`${orgPath}/databases`, outsider)).toBe(404)
  expect(await statusOf(`${foreign}/databases/${id}`, outsider)).toBe(404)
  expect(await statusOf(`${foreign}/groups/${groupId}`, outsider)).toBe(404)
  expect(await statusOf(`${orgPath}/databases/${id}`, teamToken)).toBe(200)
  expect(await statusOf(`${orgPath}/databases/${outside}`, teamToken)).toBe(404)
  for (const path of [
    '/v3/organizations/local/databases',
    `${orgPath}/databases/app`,
    `${orgPath}/groups/team`,
  ])
    expect(await statusOf(path)).toBe(404)

  const create = async (basePath: string, body: object) =>
    await harness.sendRequest('POST', `${basePath}/databases`, { body: { name: 'new', ...body } })
  for (const basePath of [orgPath, harness.orgPath]) {
    expect(await create(basePath, {})).toMatchObject({ status: 400, body: { error: 'group is missing' } })
    expect(await create(basePath, { group_id: 'team' })).toMatchObject({ status: 400 })
    expect(await create(basePath, { group_id: groupId, group: 'default' })).toMatchObject({ status: 400 })
  }
  // the vendor's client also sends an id in version 1
  expect(await create(harness.orgPath, { group_id: groupId })).toMatchObject({ status: 200 })
  expect((await harness.requestOk('GET', `${harness.orgPath}/databases/new`)).database.group).toBe('team')
})
