import { type KeyObject, sign } from 'node:crypto'
import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasSqld } from '../support/has-sqld.ts'
import { sendHttp } from '../support/send-http.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { createGroupKey, databaseIdOf } from './group-key.ts'
import { close, codes, execute, pipeline, query } from './wire.ts'

const formatUnauthorized = (text: string): string => JSON.stringify({ error: `Unauthorized: \`${text}\`` })

describe.each([['embedded'] as const, ...(hasSqld ? [['sqld'] as const] : [])])(
  'tokens, back end %s',
  (backend) => {
    const directory = createTemporaryDirectory(afterAll)
    let server: LocalServer
    let url: string
    let token: string
    let key: KeyObject

    beforeAll(async () => {
      key = await createGroupKey(directory)
      server = await startLocalServer({ backend, auth: true, dataDirectory: directory })
      const database = await server.createDatabase('app')
      url = database.url
      token = database.authToken as string
      await server.createDatabase('other')
      await query(url, 'CREATE TABLE t(a)', { token })
    })
    afterAll(async () => {
      await server.close()
    })

    async function sendWith(authorization: string | null, target = url): Promise<[number, string]> {
      const response = await fetch(`${target}/v2/pipeline`.replace('//v2', '/v2'), {
        method: 'POST',
        body: JSON.stringify({ requests: [execute('SELECT 1'), close] }),
        headers: authorization === null ? {} : { authorization },
      })
      return [response.status, await response.text()]
    }

    async function signHeader(claims: object): Promise<string> {
      const encodePart = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
      const text = `${encodePart({ alg: 'EdDSA', typ: 'JWT' })}.${encodePart(claims)}`
      return `Bearer ${text}.${sign(null, Buffer.from(text), key).toString('base64url')}`
    }

    test('rejects missing, malformed and forged tokens, and other schemes', async () => {
      expect(await sendWith(null)).toEqual([
        401,
        formatUnauthorized('Expected authorization header but none given'),
      ])
      expect(await sendWith('nonsense')).toEqual([
        401,
        formatUnauthorized("Auth string does not conform to '<scheme> <token>' form"),
      ])
      expect((await sendWith('Basic abc'))[0]).toBe(401)
      expect(await sendWith('Bearer abc')).toEqual([401, formatUnauthorized('The JWT is invalid')])
      const forgedToken = `${token.slice(0, -8)}AAAAAAAA`
      expect(await sendWith(`Bearer ${forgedToken}`)).toEqual([401, formatUnauthorized('The JWT is invalid')])
    })

    test('rejects expired tokens after a minute of leeway, and tokens with an audience', async () => {
      const now = Math.floor(Date.now() / 1_000)
      expect(await sendWith(await signHeader({ exp: now - 120 }))).toEqual([
        401,
        formatUnauthorized('The JWT has expired'),
      ])
      expect((await sendWith(await signHeader({ exp: now - 30 })))[0]).toBe(200)
      expect(await sendWith(await signHeader({ aud: 'x' }))).toEqual([
        401,
        formatUnauthorized('Authentication failed'),
      ])
      expect((await sendWith(`Bearer ${await server.createToken('app', { expiration: '1m' })}`))[0]).toBe(200)
    })

    test("rejects a token for another database with 401 if signed with that database's key, and with 404 if signed with the group's", async () => {
      const otherToken = await server.createToken('other')
      expect(await sendWith(`Bearer ${otherToken}`)).toEqual([401, formatUnauthorized('The JWT is invalid')])
      const header = await signHeader({ id: databaseIdOf(otherToken) })
      expect(await sendWith(header)).toEqual([404, `{"error":"Namespace \`app\` doesn't exist"}`])
      expect(await sendWith(null, `${server.url}/nobody/`)).toEqual([
        404,
        `{"error":"Namespace \`nobody\` doesn't exist"}`,
      ])
    })

    test('a read-only token can read, describe and introspect; a write makes the whole pipeline fail', async () => {
      const readOnlyToken = await server.createToken('app', { authorization: 'read-only' })
      const reads = await pipeline(
        url,
        [execute('SELECT * FROM t'), execute('PRAGMA table_info(t)'), close],
        { token: readOnlyToken },
      )
      expect(codes(reads)).toEqual(['ok', 'ok', 'ok'])
      const write = await pipeline(url, [execute('SELECT 1'), execute('INSERT INTO t VALUES (1)'), close], {
        token: readOnlyToken,
      })
      const text =
        "Authorization forbidden: Current session doesn't not have Write permission to namespace app"
      expect([write.status, write.text]).toEqual([403, JSON.stringify({ error: text })])
      expect(await query(url, 'SELECT count(*) FROM t', { token })).toEqual([['0']])
    })

    test('a baton also needs a token for its database', async () => {
      const stream = await pipeline(url, [execute('BEGIN')], { token })
      const withoutToken = await pipeline(url, [execute('SELECT 1')], { baton: stream.baton })
      expect(withoutToken.status).toBe(401)
      const otherToken = await server.createToken('other')
      const withOtherToken = await pipeline(`${server.url}/other`, [execute('SELECT 1')], {
        baton: stream.baton,
        token: otherToken,
      })
      expect([withOtherToken.status, withOtherToken.text]).toEqual([400, 'Received an invalid baton'])
      const withOwnToken = await pipeline(url, [execute('ROLLBACK'), close], { baton: stream.baton, token })
      expect(codes(withOwnToken)).toEqual(['ok', 'ok'])
    })
  },
)

describe.each([['embedded'] as const, ...(hasSqld ? [['sqld'] as const] : [])])(
  'settings and addresses, back end %s',
  (backend) => {
    test('applies and removes a size limit and a write block', async () => {
      await using server = await startLocalServer({ backend })
      const { url } = await server.createDatabase('small', { sizeLimit: '100kb' })
      await query(url, 'CREATE TABLE t(a)')
      const full = await pipeline(url, [execute('INSERT INTO t VALUES (zeroblob(200000))'), close])
      expect(full.results[0]?.error).toEqual({
        code: 'SQLITE_FULL',
        message: 'SQLite error: database or disk is full',
      })
      await server.updateDatabase('small', { sizeLimit: null, blockWrites: true, blockReason: 'moving' })
      const blockedReply = await pipeline(url, [
        execute('INSERT INTO t VALUES (1)'),
        execute('SELECT 1'),
        close,
      ])
      expect(blockedReply.results[0]?.error).toEqual({
        code: 'BLOCKED',
        message: 'Operation was blocked: moving',
      })
      expect(codes(blockedReply)).toEqual(['BLOCKED', 'ok', 'ok'])
      await server.updateDatabase('small', { blockWrites: false })
      expect(codes(await pipeline(url, [execute('INSERT INTO t VALUES (zeroblob(200000))'), close]))).toEqual(
        ['ok', 'ok'],
      )
    })

    test('addresses databases by path, host name and header, and counts requests by database', async () => {
      await using server = await startLocalServer({ backend, domains: { 'App.example.test': 'app' } })
      const { url } = await server.createDatabase('app')
      expect(url).toBe(`${server.url}/app/`)
      await query(url, 'CREATE TABLE here(a)')
      const sendRequest = async (headers: Record<string, string>): Promise<string> => {
        const body = JSON.stringify({ requests: [execute('SELECT name FROM sqlite_schema'), close] })
        return (await sendHttp(`${server.url}/v2/pipeline`, { method: 'POST', headers, body })).text
      }
      expect(await sendRequest({ host: 'app.example.test' })).toContain('"here"')
      expect(await sendRequest({ host: 'APP.example.test' })).toContain('"here"')
      expect(await sendRequest({ host: 'app.localhost:1234' })).toContain('"here"')
      expect(await sendRequest({ host: 'App.Localhost' })).toContain('"here"')
      expect(
        await sendRequest({ 'x-namespace-bin': Buffer.from('app').toString('base64').replace(/=+$/, '') }),
      ).toContain('"here"')
      expect(await sendRequest({ 'x-namespace': 'app' })).toContain('"here"')
      expect(await sendRequest({})).not.toContain('"here"')
      expect(await sendRequest({ host: 'nobody.localhost' })).toContain("Namespace `nobody` doesn't exist")
      expect([server.requestCount('app'), server.requestCount('default'), server.requestCount()]).toEqual([
        7, 1, 9,
      ])
    })

    test('rejects invalid names, names that are taken, missing databases and unknown options', async () => {
      await using server = await startLocalServer({ backend })
      for (const name of [undefined, null])
        await expect(server.createDatabase(name as never)).rejects.toThrow('the name must be string')
      for (const name of ['', 'v2', 'A', 'a/b', '..', 'a.b', 'x'.repeat(65)]) {
        await expect(server.createDatabase(name)).rejects.toThrow(TypeError)
      }
      await server.createDatabase('a')
      await expect(server.createDatabase('a')).rejects.toThrow('already exists')
      await expect(server.deleteDatabase('b')).rejects.toThrow('database "b" does not exist')
      await expect(server.createToken('a')).rejects.toThrow('auth: true')
      await expect(server.createDatabase('c', { sizeLimits: 5 } as object)).rejects.toThrow(
        'unknown option sizeLimits',
      )
      for (const sizeLimit of ['-1', '', '0', '1 tebibyte'])
        await expect(server.createDatabase('c', { sizeLimit })).rejects.toThrow(
          new TypeError(
            `createDatabase: sizeLimit must be a size such as 256mb, or null, not '${sizeLimit}'`,
          ),
        )
      for (const expiration of ['', 'none', '0s', '-1h'])
        await expect(server.createToken('a', { expiration })).rejects.toThrow(
          new TypeError(
            `createToken: expiration must be a duration such as '15m' or '2w1d', longer than 0, or 'never', not '${expiration}'`,
          ),
        )
      await expect(startLocalServer({ dataDir: '/tmp' } as object)).rejects.toThrow('unknown option dataDir')
    })
  },
)
