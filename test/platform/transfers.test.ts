import { cp, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { databaseFolders, groupFolders, Harness, sql } from './platform-harness.ts'

const MINE_PATH = '/v1/organizations/mine'

/** Creates a second organization with the group `default`, and a group `team` in the first one. */
async function startHarness(): Promise<Harness> {
  const harness = await Harness.forTest()
  await harness.createOrganization('mine')
  await harness.createGroup('team')
  return harness
}

function transfer(harness: Harness, body: object, token?: string) {
  return harness.sendRequest('POST', 'databases/app/transfer', {
    body,
    ...(token !== undefined && { token }),
  })
}

describe('a database is transferred', () => {
  test('to another organization with its rows; its tokens become invalid', async () => {
    const harness = await startHarness()
    const { host, id, token } = await harness.openDatabase('app', [
      'CREATE TABLE t (a)',
      'INSERT INTO t VALUES (9007199254740993)',
    ])
    const stream = await sql(host, token, ['BEGIN', 'INSERT INTO t VALUES (2)'], { keepOpen: true })
    expect(await transfer(harness, { org: 'mine' })).toEqual({ status: 200, body: undefined })
    expect(await harness.statusOf('GET', 'databases/app')).toBe(404)
    const { database } = await harness.requestOk('GET', `${MINE_PATH}/databases/app`)
    expect([database.DbId, database.group]).toEqual([id, 'default'])
    expect((await sql(database.Hostname, token, 'SELECT a FROM t')).status).toBe(401)
    const { jwt } = await harness.requestOk('POST', `${MINE_PATH}/databases/app/auth/tokens`)
    const commit = await sql(database.Hostname, jwt, 'COMMIT', { baton: stream.baton })
    expect(commit.status).toBe(400)
    expect((await sql(database.Hostname, jwt, 'SELECT a FROM t')).rows).toEqual([['9007199254740993']])
    expect((await sql(host, jwt, 'SELECT a FROM t')).status).toBe(404)
    // its name is available again
    const newDatabase = await harness.createDatabase('app')
    expect(
      (await sql(newDatabase.host, await harness.tokenFor('app'), 'SELECT a FROM t')).error,
    ).not.toBeNull()
  })

  test.each(['databases/app', 'groups/team'])(
    'each organization is charged for the usage while it owned %s',
    async (path) => {
      const harness = await startHarness()
      const { host } = await harness.createDatabase('app', { group: 'team' })
      const rowsWritten = async (organization: string): Promise<number> =>
        (await harness.requestOk('GET', `/v1/organizations/${organization}/usage`)).organization.usage
          .rows_written
      await sql(host, await harness.tokenFor('app'), ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1), (2)'])
      const body = { org: 'mine', organization: 'mine', group: 'default' }
      expect(await harness.statusOf('POST', `${path}/transfer`, { body })).toBe(200)
      const before = await rowsWritten('local')
      expect([before >= 2, await rowsWritten('mine')]).toEqual([true, 0])
      const { database } = await harness.requestOk('GET', `${MINE_PATH}/databases/app`)
      const { jwt } = await harness.requestOk('POST', `${MINE_PATH}/databases/app/auth/tokens`)
      await sql(database.Hostname, jwt, 'INSERT INTO t VALUES (3), (4), (5)')
      await expect.poll(() => rowsWritten('mine')).toBeGreaterThanOrEqual(3)
      expect(await rowsWritten('local')).toBe(before)
    },
  )

  test('repeatedly between two groups; the rows written in each are kept', async () => {
    const harness = await startHarness()
    const { host } = await harness.createDatabase('app')
    const write = async (text: string) =>
      expect((await sql(host, await harness.tokenFor('app'), text)).error).toBeNull()
    await write('CREATE TABLE t (a)')
    for (const group of ['team', 'default', 'team']) {
      await write(`INSERT INTO t VALUES ('before ${group}')`)
      expect(await transfer(harness, { org: 'local', group })).toEqual({ status: 200, body: undefined })
      expect((await harness.requestOk('GET', 'databases/app')).database.group).toBe(group)
    }
    const rows = (await sql(host, await harness.tokenFor('app'), 'SELECT a FROM t ORDER BY rowid')).rows
    expect(rows).toEqual([['before team'], ['before default'], ['before team']])
  })

  test('to another group with a db:configure token for its current group; the token then has no access to the database', async () => {
    const harness = await startHarness()
    await harness.createDatabase('app')
    const scopes = ['read', 'db:configure']
    const token = await harness.createApiToken('robot', { organization: 'local', group: 'default', scopes })
    const request = { org: 'local', group: 'team' }
    expect(await transfer(harness, request, token)).toEqual({ status: 200, body: undefined })
    expect(await harness.statusOf('GET', 'databases/app', { token })).toBe(404)
    expect((await transfer(harness, { org: 'local', group: 'default' }, token)).status).toBe(404)
    expect((await harness.requestOk('GET', 'databases/app')).database.group).toBe('team')
  })

  test('to the oldest group if the organization has no group with the same name', async () => {
    const harness = await startHarness()
    await harness.requestOk('POST', `${MINE_PATH}/groups`, { body: { name: 'younger', location: 'local' } })
    await harness.createDatabase('app', { group: 'team' })
    expect(await transfer(harness, { org: 'mine' })).toEqual({ status: 200, body: undefined })
    expect((await harness.requestOk('GET', `${MINE_PATH}/databases/app`)).database.group).toBe('default')
    await harness.requestOk('POST', '/v1/organizations', { body: { name: 'empty' } })
    await harness.createDatabase('app')
    expect(await transfer(harness, { org: 'empty' })).toEqual({
      status: 400,
      body: { error: 'empty has no group' },
    })
  })

  test('with concurrent writers, and each acknowledged row exists once', async () => {
    const harness = await startHarness()
    const { host } = await harness.openDatabase('app', 'CREATE TABLE t (a)')
    const stop = new AbortController()
    const acknowledged: string[] = []
    const writer = async (name: string) => {
      let token = await harness.tokenFor('app')
      for (let count = 0; !stop.signal.aborted; count += 1) {
        const { status, error } = await sql(host, token, `INSERT INTO t VALUES ('${name}${count}')`)
        if (status === 200 && error === null) acknowledged.push(`${name}${count}`)
        if (status === 401) token = await harness.tokenFor('app')
      }
    }
    const writers = ['x', 'y', 'z'].map(writer)
    for (const group of ['team', 'default', 'team', 'default']) {
      const before = acknowledged.length
      await expect.poll(() => acknowledged.length, { timeout: 60_000 }).toBeGreaterThan(before + 10)
      expect(await transfer(harness, { org: 'local', group })).toEqual({ status: 200, body: undefined })
    }
    stop.abort()
    await Promise.all(writers)
    const { rows } = await sql(host, await harness.tokenFor('app'), 'SELECT a FROM t')
    const names = rows.map(([name]) => name)
    expect(new Set(names).size).toBe(names.length)
    expect(acknowledged.filter((name) => !names.includes(name))).toEqual([])
  })

  test('to two groups at the same time, and is complete in a group for which the transfer was acknowledged', async () => {
    const harness = await startHarness()
    const { host } = await harness.openDatabase('app', ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
    await harness.createGroup('crew')
    const groups = ['team', 'crew']
    const responses = await Promise.all(groups.map((group) => transfer(harness, { org: 'local', group })))
    // either both succeeded in turn, or the second was rejected because the database had already moved
    for (const { status } of responses) expect([200, 409]).toContain(status)
    const { database } = await harness.requestOk('GET', 'databases/app')
    expect(groups.filter((_, index) => responses[index]?.status === 200)).toContain(database.group)
    const result = await sql(host, await harness.tokenFor('app'), [
      'INSERT INTO t VALUES (2)',
      'SELECT a FROM t',
    ])
    expect(result.rows).toEqual([['1'], ['2']])
  })

  test.runIf(inject('target') === 'sqld')(
    'not to a group that is deleted in the meantime; it remains writable in its own group',
    async () => {
      const directory = createTemporaryDirectory()
      await using harness = await Harness.start({}, directory)
      await harness.createGroup('team')
      const { host, token } = await harness.openDatabase('app', 'CREATE TABLE t (a)')
      const pendingTransfer = transfer(harness, { org: 'local', group: 'team' })
      // the transfer has begun, and the server of the group is being started
      await expect.poll(async () => (await groupFolders(directory)).length, { timeout: 60_000 }).toBe(2)
      await harness.requestOk('DELETE', 'groups/team')
      expect((await pendingTransfer).status).toBeGreaterThanOrEqual(400)
      expect((await sql(host, token, 'INSERT INTO t VALUES (2)')).error).toBeNull()
      expect((await harness.requestOk('GET', 'databases/app')).database.group).toBe('default')
    },
  )

  test('to a group with leftovers from a crash, which are moved aside', async () => {
    const directory = createTemporaryDirectory()
    const ids: string[] = []
    {
      await using harness = await Harness.start({}, directory)
      await harness.createGroup('team')
      for (const [name, group] of [
        ['app', 'default'],
        ['other', 'team'],
      ] as const) {
        const { host, id } = await harness.createDatabase(name, { group })
        await sql(host, await harness.tokenFor(name), [
          'CREATE TABLE t (a)',
          `INSERT INTO t VALUES ('${name}')`,
        ])
        ids.push(id)
      }
    }
    const [app = '', other = ''] = ids
    const folders = await databaseFolders(directory)
    const folderContents = await Promise.all(
      folders.map(async (folder) => ({ folder, names: await readdir(folder) })),
    )
    const folderOf = (id: string) => folderContents.find(({ names }) => names.includes(id))?.folder ?? ''
    if (inject('target') === 'sqld')
      await cp(join(folderOf(app), app), join(folderOf(other), app), { recursive: true })
    await using harness = await Harness.start({}, directory)
    expect(await readdir(folderOf(other))).toContain(other)
    if (inject('target') === 'sqld') expect(await readdir(folderOf(other))).not.toContain(app)
    const { database } = await harness.requestOk('GET', 'databases/app')
    const token = await harness.tokenFor('app')
    expect((await sql(database.Hostname, token, 'SELECT a FROM t')).rows).toEqual([['app']])
    expect(await transfer(harness, { org: 'local', group: 'team' })).toEqual({ status: 200, body: undefined })
    const result = await sql(database.Hostname, await harness.tokenFor('app'), 'SELECT a FROM t')
    expect(result.rows).toEqual([['app']])
  })

  test('only by an admin of both organizations, to an existing group', async () => {
    const harness = await startHarness()
    await harness.createDatabase('app')
    const before = await harness.requestOk('GET', 'databases/app')
    const robot = { organization: 'local', group: 'default', scopes: ['full-access'] }
    const groupToken = await harness.createApiToken('robot', robot)
    const deleteOnlyToken = await harness.createApiToken('deleter', { ...robot, scopes: ['db:delete'] })
    const otherGroupToken = await harness.createApiToken('team-robot', { ...robot, group: 'team' })
    const outsider = await harness.platform.createUser({ username: 'stranger' })
    await harness.requestOk('POST', '/v1/organizations', { token: outsider, body: { name: 'theirs' } })
    const bob = await harness.platform.createUser({ username: 'bob' })
    await harness.requestOk('POST', 'members', { body: { username: 'bob', role: 'member' } })
    await harness.requestOk('POST', '/v1/organizations', { token: bob, body: { name: 'bobs' } })
    await harness.requestOk('POST', '/v1/organizations/bobs/groups', {
      token: bob,
      body: { name: 'default', location: 'local' },
    })
    const rejections: [object, number, string?][] = [
      // a member cannot transfer it
      [{ org: 'bobs' }, 403, bob],
      [{ org: 'theirs' }, 404],
      [{ org: 'mine', group: 'nowhere' }, 400],
      [{ org: 'local', group: 'nowhere' }, 404, groupToken],
      // the token's user is a member there
      [{ org: 'mine' }, 403, groupToken],
      [{ org: 'theirs' }, 404, groupToken],
      [{ org: 'local', group: 'team' }, 403, deleteOnlyToken],
      [{ org: 'local', group: 'team' }, 404, otherGroupToken],
      [{ org: 'mine' }, 404, outsider],
    ]
    for (const [body, status, token] of rejections)
      expect([body, (await transfer(harness, body, token)).status]).toEqual([body, status])
    await harness.requestOk('POST', `${MINE_PATH}/databases`, { body: { name: 'app', group: 'default' } })
    expect((await transfer(harness, { org: 'mine' })).status).toBe(409)
    expect(await harness.requestOk('GET', 'databases/app')).toEqual(before)
  })

  test('only together with the databases that share its schema', async () => {
    const harness = await startHarness()
    await harness.createDatabase('parent', { is_schema: true })
    await harness.createDatabase('app', { schema: 'parent' })
    expect(await transfer(harness, { org: 'mine' })).toMatchObject({
      status: 400,
      body: { error: 'database app shares its schema with others, which must be in the same group' },
    })
  })
})
