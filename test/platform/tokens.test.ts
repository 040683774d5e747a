import { once } from 'node:events'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, inject, test } from 'vitest'
import { expectNoStall } from '../support/no-stall.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { Harness, sql } from './platform-harness.ts'

/** Sends a request in two halves. @returns a function that sends the second one, and returns the status of the response */
async function sendInHalves(url: string, token: string, body: string): Promise<() => Promise<number>> {
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'content-length': String(body.length),
  }
  const request = http.request(url, { method: 'POST', headers, agent: false })
  const reply = once(request, 'response') as Promise<[http.IncomingMessage]>
  request.write(body.slice(0, 5))
  // until the first half has arrived and is authorized
  await sleep(150)
  return async () => {
    request.end(body.slice(5))
    const [{ statusCode = 0 }] = await reply
    request.destroy()
    return statusCode
  }
}

describe('the invalidation of a token while the body of its request is in flight', () => {
  test('prevents the statements on a database from being executed', async () => {
    const harness = await Harness.forTest()
    const { host, token } = await harness.openDatabase('app')
    const requests = [{ type: 'execute', stmt: { sql: 'CREATE TABLE late (a)' } }, { type: 'close' }]
    const sendRest = await sendInHalves(`http://${host}/v2/pipeline`, token, JSON.stringify({ requests }))
    await harness.requestOk('POST', 'databases/app/auth/rotate')
    expect(await sendRest()).toBe(401)
    const names = await sql(host, await harness.tokenFor('app'), 'SELECT name FROM sqlite_schema')
    expect(names.rows).toEqual([])
  })

  test('prevents a change through the API', async () => {
    const harness = await Harness.forTest()
    const { token } = await harness.requestOk('POST', '/v1/auth/api-tokens/brief')
    const url = `${harness.platform.url}${harness.orgPath}/groups`
    const sendRest = await sendInHalves(url, token, JSON.stringify({ name: 'late', location: 'local' }))
    await harness.requestOk('DELETE', '/v1/auth/api-tokens/brief')
    expect(await sendRest()).toBe(401)
    expect(await harness.statusOf('GET', 'groups/late')).toBe(404)
  })
})

describe('tokens for databases', () => {
  test('a read-only token can only read, and an expired token is rejected', async () => {
    const harness = await Harness.forTest()
    const { host } = await harness.openDatabase('app', 'CREATE TABLE t (a)')
    const reader = await harness.tokenFor('app', '?authorization=read-only&expiration=1h30m')
    expect((await sql(host, reader, 'SELECT count(*) FROM t')).rows).toEqual([['0']])
    expect((await sql(host, reader, 'INSERT INTO t VALUES (1)')).status).toBe(403)
    const claims = JSON.parse(Buffer.from(reader.split('.')[1] ?? '', 'base64url').toString())
    expect(claims.exp - claims.iat).toBe(5_400)
    expect('exp' in JSON.parse(atob((await harness.tokenFor('app')).split('.')[1] ?? ''))).toBe(false)
  })

  test("a group's token is valid for all of its databases, including later ones, but not for those of another group", async () => {
    const harness = await Harness.forTest()
    await harness.createGroup('team')
    const { jwt } = await harness.requestOk('POST', 'groups/team/auth/tokens')
    const reader = (await harness.requestOk('POST', 'groups/team/auth/tokens?authorization=read-only')).jwt
    const member = await harness.createDatabase('inside', { group: 'team' })
    const nonMember = await harness.createDatabase('outside')
    expect((await sql(member.host, jwt, 'CREATE TABLE t (a)')).status).toBe(200)
    expect((await sql(member.host, reader, 'INSERT INTO t VALUES (1)')).status).toBe(403)
    expect((await sql(nonMember.host, jwt, 'SELECT 1')).status).toBe(401)
  })

  test('permissions for tables are enforced, or rejected if the back end would ignore them', async () => {
    const harness = await Harness.forTest()
    const { host } = await harness.openDatabase('app', ['CREATE TABLE t (a)', 'CREATE TABLE u (a)'])
    const createToken = (a: string[]) => {
      const body = { fine_grained_permissions: [{ t: ['t'], a }] }
      return harness.sendRequest('POST', 'databases/app/auth/tokens', { body })
    }
    expect((await createToken(['data_insert'])).status).toBe(400)
    const { status, body } = await createToken(['data_read'])
    if (inject('target') === 'sqld') {
      expect([status, body.error]).toEqual([400, expect.stringContaining('are not supported')])
      return
    }
    expect((await sql(host, body.jwt, 'SELECT count(*) FROM t')).rows).toEqual([['0']])
    const executed = expect.objectContaining({ status: 200, error: null })
    for (const statement of ['SELECT count(*) FROM u', 'INSERT INTO t VALUES (1)', 'DROP TABLE t'])
      expect([statement, await sql(host, body.jwt, statement)]).not.toEqual([statement, executed])
  })

  test('a database that allows attaching can be attached with a token that names it', async () => {
    const harness = await Harness.forTest()
    const app = await harness.createDatabase('app')
    const other = await harness.openDatabase('other', ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (7)'])
    const permissions = { read_attach: { databases: ['other'] } }
    const token = await harness.tokenFor('app', '', { permissions })
    const attach = [`ATTACH "${other.id}" AS x`, 'SELECT a FROM x.t']
    const isRejected = async (usedToken: string): Promise<boolean> => {
      const { status, error } = await sql(app.host, usedToken, attach)
      return status !== 200 || error !== null
    }
    expect(await isRejected(token)).toBe(true)
    await harness.configure('other', { allow_attach: true })
    expect(await sql(app.host, token, attach)).toMatchObject({ error: null, rows: [['7']] })
    expect(await isRejected(await harness.tokenFor('app'))).toBe(true)
    // also by name; without permission to attach the database, nothing about it is revealed
    const attachByName = (name: string) => [`/* a */ attach database ${name} AS x`, 'SELECT a FROM x.t']
    for (const name of ['"other"', 'other', '[other]'])
      expect(await sql(app.host, token, attachByName(name))).toMatchObject({ error: null, rows: [['7']] })
    const rejectedReply = await sql(app.host, await harness.tokenFor('app'), attachByName('"other"'))
    expect(JSON.stringify(rejectedReply)).not.toContain(other.id)
    expect(rejectedReply.rows).toEqual([])
    const options = { authorization: 'read-only', readAttach: ['other'] } as const
    const createdToken = await harness.server.createToken('app', options)
    expect((await sql(app.host, createdToken, attachByName('"other"'))).rows).toEqual([['7']])
    await expect(harness.server.createToken('app', { readAttach: ['nowhere'] })).rejects.toThrow('"nowhere"')
    // no database of another group can be attached
    await harness.createGroup('team')
    await harness.createDatabase('far', { group: 'team' })
    await expect(harness.server.createToken('app', { readAttach: ['far'] })).rejects.toThrow('another group')
    expect((await sql(app.host, token, attachByName('"far"'))).rows).toEqual([])
    const body = { permissions: { read_attach: { databases: ['far'] } } }
    expect(await harness.statusOf('POST', 'databases/app/auth/tokens', { body: body })).toBe(400)
    // the official client always sends an empty list
    await harness.tokenFor('app', '', { permissions: { read_attach: { databases: [] } } })
  })

  test('a stream that has attached a database is closed when that database becomes unreadable', async () => {
    const harness = await Harness.forTest()
    const app = await harness.createDatabase('app')
    const other = await harness.openDatabase('other', ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
    const { token: owner } = other
    const configure = (body: object) => harness.configure('other', body)
    await configure({ allow_attach: true })
    const permissions = { read_attach: { databases: ['other'] } }
    const token = await harness.tokenFor('app', '', { permissions })
    const tokenWithoutAttach = await harness.tokenFor('app')
    const openAttachedStream = async () => {
      const attachReply = await sql(app.host, token, 'ATTACH "other" AS x', { keepOpen: true })
      const read = (usedToken: string, baton: string | null) =>
        sql(app.host, usedToken, 'SELECT max(a) FROM x.t', { baton, keepOpen: true })
      const firstRead = await read(token, attachReply.baton)
      expect(firstRead.rows).toEqual([['1']])
      return (usedToken = token) => read(usedToken, firstRead.baton)
    }
    const invalidBaton = { status: 400, rows: [] }
    for (const change of [{ allow_attach: false }, { block_reads: true }]) {
      const read = await openAttachedStream()
      await sql(other.host, owner, 'INSERT INTO t VALUES (2)')
      await configure(change)
      expect(await read()).toMatchObject(invalidBaton)
      await configure({ allow_attach: true, block_reads: false })
      await sql(other.host, owner, 'DELETE FROM t WHERE a = 2')
    }
    const read = await openAttachedStream()
    expect(await read(tokenWithoutAttach)).toMatchObject(invalidBaton)
  })
})

/** Opens a change stream of a table. @returns the stream, with the text received on it */
async function listen(host: string, token: string, table: string) {
  const response = await fetch(`http://${host}/beta/listen?table=${table}&action=insert`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const received = { text: '', isClosed: false }
  const closed = (async () => {
    try {
      for await (const part of response.body ?? []) received.text += Buffer.from(part).toString()
    } catch {
      // aborted
    }
    received.isClosed = true
  })()
  return { status: response.status, received, closed }
}

async function waitUntil(condition: () => boolean): Promise<void> {
  for (let attempt = 0; attempt < 300 && !condition(); attempt += 1) await sleep(20)
  expect(condition()).toBe(true)
}

describe.each([
  ['of the database', 'databases/app/auth/rotate', false],
  ['of its group', 'groups/default/auth/rotate', true],
])('a rotation %s', (_, path, isGroup) => {
  test('invalidates tokens, and ends open streams, their transactions, and change streams at once', async () => {
    const harness = await Harness.forTest()
    const { host, token } = await harness.openDatabase('app', 'CREATE TABLE t (a)')
    const other = await harness.openDatabase('bystander')
    const groupToken = (await harness.requestOk('POST', 'groups/default/auth/tokens')).jwt
    const begin = ['BEGIN IMMEDIATE', 'INSERT INTO t VALUES (1)']
    const transaction = await sql(host, token, begin, { keepOpen: true })
    const changes = await listen(host, token, 't')
    expect(changes.status).toBe(200)

    expect(await harness.sendRequest('POST', path)).toEqual({ status: 200, body: undefined })
    expect((await sql(host, token, 'SELECT 1')).status).toBe(401)
    expect((await sql(host, token, 'COMMIT', { baton: transaction.baton })).status).toBe(401)
    await waitUntil(() => changes.received.isClosed)
    await changes.closed
    const newToken = await harness.tokenFor('app')
    // the old stream does not exist for the new token either, and its lock was released
    expect((await sql(host, newToken, 'COMMIT', { baton: transaction.baton })).status).toBe(400)
    const write = () => sql(host, newToken, ['INSERT INTO t VALUES (2)', 'SELECT a FROM t'])
    expect((await expectNoStall(write)).rows).toEqual([['2']])
    expect(changes.received.text).not.toContain('insert')

    expect((await sql(host, groupToken, 'SELECT 1')).status).toBe(isGroup ? 401 : 200)
    expect((await sql(other.host, other.token, 'SELECT 1')).status).toBe(isGroup ? 401 : 200)
  })
})

test('a rotation survives a restart', async () => {
  const directory = createTemporaryDirectory()
  let [oldToken, newToken] = ['', '']
  {
    await using harness = await Harness.start({}, directory)
    oldToken = (await harness.openDatabase('app')).token
    await harness.requestOk('POST', 'databases/app/auth/rotate')
    newToken = await harness.tokenFor('app')
  }
  {
    await using harness = await Harness.start({}, directory)
    const { database } = await harness.requestOk('GET', 'databases/app')
    expect((await sql(database.Hostname, oldToken, 'SELECT 1')).status).toBe(401)
    expect((await sql(database.Hostname, newToken, 'SELECT 1')).status).toBe(200)
  }
})
