import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, inject, test } from 'vitest'
import { Scene, sql } from './platform-scene.ts'

describe('tokens for databases', () => {
  test('a read-only one reads, one that has expired does nothing', async () => {
    const scene = await Scene.forTest()
    const { host } = await scene.create('app')
    await sql(host, await scene.tokenFor('app'), 'CREATE TABLE t (a)')
    const reader = await scene.tokenFor('app', '?authorization=read-only&expiration=1h30m')
    expect((await sql(host, reader, 'SELECT count(*) FROM t')).rows).toEqual([['0']])
    expect((await sql(host, reader, 'INSERT INTO t VALUES (1)')).status).toBe(403)
    const claims = JSON.parse(Buffer.from(reader.split('.')[1] ?? '', 'base64url').toString())
    expect(claims.exp - claims.iat).toBe(5_400)
    expect('exp' in JSON.parse(atob((await scene.tokenFor('app')).split('.')[1] ?? ''))).toBe(false)
  })

  test("a group's is good for all its databases, those made later too, and for no other group's", async () => {
    const scene = await Scene.forTest()
    await scene.done('POST', `${scene.own}/groups`, { body: { name: 'team', location: 'local' } })
    const { jwt } = await scene.done('POST', `${scene.own}/groups/team/auth/tokens`)
    const reader = (await scene.done('POST', `${scene.own}/groups/team/auth/tokens?authorization=read-only`))
      .jwt
    const inside = await scene.create('inside', { group: 'team' })
    const outside = await scene.create('outside')
    expect((await sql(inside.host, jwt, 'CREATE TABLE t (a)')).status).toBe(200)
    expect((await sql(inside.host, reader, 'INSERT INTO t VALUES (1)')).status).toBe(403)
    expect((await sql(outside.host, jwt, 'SELECT 1')).status).toBe(401)
  })

  test('permissions for tables, and attaching, are refused where the back end has none', async () => {
    const scene = await Scene.forTest()
    await scene.create('app')
    await scene.create('other')
    const mint = (body: object) => scene.ask('POST', `${scene.own}/databases/app/auth/tokens`, { body })
    const tables = await mint({ fine_grained_permissions: [{ t: ['t'], a: ['data_read'] }] })
    expect([tables.status, tables.body.error]).toEqual([400, expect.stringContaining('are not supported')])
    const attach = { permissions: { read_attach: { databases: ['other'] } } }
    const configure = { allow_attach: true }
    if (inject('target') === 'embedded') {
      expect((await mint(attach)).body.error).toContain('read_attach is not supported')
      const { body } = await scene.ask('PATCH', `${scene.own}/databases/app/configuration`, {
        body: configure,
      })
      expect(body.error).toContain('allow_attach is not supported')
    } else {
      expect((await mint(attach)).status).toBe(200)
      expect(
        await scene.done('PATCH', `${scene.own}/databases/app/configuration`, { body: configure }),
      ).toMatchObject(configure)
    }
    // the official client always sends an empty list
    expect((await mint({ permissions: { read_attach: { databases: [] } } })).status).toBe(200)
  })
})

/** A change stream of a table, and what has arrived on it. */
async function listen(host: string, token: string, table: string) {
  const response = await fetch(`http://${host}/beta/listen?table=${table}&action=insert`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const heard = { text: '', isOver: false }
  const over = (async () => {
    try {
      for await (const part of response.body ?? []) heard.text += Buffer.from(part).toString()
    } catch {
      // cut off
    }
    heard.isOver = true
  })()
  return { status: response.status, heard, over }
}

async function until(isSo: () => boolean): Promise<void> {
  for (let attempt = 0; attempt < 300 && !isSo(); attempt += 1) await sleep(20)
  expect(isSo()).toBe(true)
}

describe.each([
  ['of the database', 'databases/app/auth/rotate', false],
  ['of its group', 'groups/default/auth/rotate', true],
])('a rotation %s', (_, path, isGroup) => {
  test('ends tokens, open streams with their transactions, and change streams at once', async () => {
    const scene = await Scene.forTest()
    const { host } = await scene.create('app')
    const bystander = await scene.create('bystander')
    const bystanderToken = await scene.tokenFor('bystander')
    const token = await scene.tokenFor('app')
    const groupToken = (await scene.done('POST', `${scene.own}/groups/default/auth/tokens`)).jwt
    await sql(host, token, 'CREATE TABLE t (a)')
    const open = await sql(host, token, ['BEGIN IMMEDIATE', 'INSERT INTO t VALUES (1)'], { keep: true })
    const changes = await listen(host, token, 't')
    expect(changes.status).toBe(200)

    expect(await scene.ask('POST', `${scene.own}/${path}`)).toEqual({ status: 200, body: undefined })
    expect((await sql(host, token, 'SELECT 1')).status).toBe(401)
    expect((await sql(host, token, 'COMMIT', { baton: open.baton })).status).toBe(401)
    await until(() => changes.heard.isOver)
    await changes.over
    const fresh = await scene.tokenFor('app')
    // with the new token the old stream is gone, too; its lock is free
    expect((await sql(host, fresh, 'COMMIT', { baton: open.baton })).status).toBe(400)
    const started = performance.now()
    expect((await sql(host, fresh, ['INSERT INTO t VALUES (2)', 'SELECT a FROM t'])).rows).toEqual([['2']])
    expect(performance.now() - started).toBeLessThan(4_500)
    expect(changes.heard.text).not.toContain('insert')

    expect((await sql(host, groupToken, 'SELECT 1')).status).toBe(isGroup ? 401 : 200)
    expect((await sql(bystander.host, bystanderToken, 'SELECT 1')).status).toBe(isGroup ? 401 : 200)
  })
})

test('a rotation is kept over a restart', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  let [old, fresh] = ['', '']
  {
    await using scene = await Scene.start({}, directory)
    await scene.create('app')
    old = await scene.tokenFor('app')
    await scene.done('POST', `${scene.own}/databases/app/auth/rotate`)
    fresh = await scene.tokenFor('app')
  }
  {
    await using scene = await Scene.start({}, directory)
    const { database } = await scene.done('GET', `${scene.own}/databases/app`)
    expect((await sql(database.Hostname, old, 'SELECT 1')).status).toBe(401)
    expect((await sql(database.Hostname, fresh, 'SELECT 1')).status).toBe(200)
  }
  await rm(directory, { recursive: true, force: true })
})
