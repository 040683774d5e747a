import { createHmac, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { databaseIdOf } from '../server/group-key.ts'
import { close, execute } from '../server/wire.ts'
import { words } from '../support/words.ts'
import { AttackedServer, BACKENDS } from './attacked-server.ts'

/** Encodes a part of a token. Accepts a value, or JSON text that cannot be the result of serializing one. */
const encodePart = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const SELECT_BODY = { requests: [execute('select 42'), close] }

describe.each(BACKENDS)('invalid tokens: %s', (backend) => {
  let attacked: AttackedServer
  let key: KeyObject
  let token: string
  let claims: Record<string, unknown>

  beforeAll(async () => {
    attacked = await AttackedServer.start({ backend, auth: true })
    key = attacked.key
    token = await attacked.server.createToken('app')
    claims = JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString()) as typeof claims
  })
  afterAll(() => attacked[Symbol.asyncDispose]())

  async function getStatus(authorization: string, path = '/app/v3/pipeline'): Promise<number> {
    const { status, text } = await attacked.post(path, SELECT_BODY, { authorization })
    if (status !== 200) expect(text).not.toContain('"value":"42"')
    return status
  }

  function forge(header: unknown, body: unknown, signingKey: KeyObject | null = key): string {
    const text = `${encodePart(header)}.${encodePart(body)}`
    return `Bearer ${text}.${signingKey === null ? '' : sign(null, Buffer.from(text), signingKey).toString('base64url')}`
  }

  const validHeader = { alg: 'EdDSA', typ: 'JWT' }

  test('a token of the same kind with a valid key is accepted', async () => {
    expect(await getStatus(`Bearer ${token}`)).toBe(200)
    expect(await getStatus(forge(validHeader, claims))).toBe(200)
    expect(await getStatus(`bearer ${token}`)).toBe(200)
  })

  test('rejects invalid algorithms', async () => {
    for (const alg of ['none', 'None', 'HS256', 'RS256', 'ES256', 'Ed25519', 'eddsa', '', null, ['EdDSA']]) {
      expect([alg, await getStatus(forge({ ...validHeader, alg }, claims))]).toEqual([alg, 401])
      expect([alg, await getStatus(forge({ ...validHeader, alg }, claims, null))]).toEqual([alg, 401])
    }
    const pem = createPublicKey(key).export({ type: 'spki', format: 'pem' })
    const text = `${encodePart({ alg: 'HS256', typ: 'JWT' })}.${encodePart(claims)}`
    const mac = createHmac('sha256', pem).update(text).digest('base64url')
    expect(await getStatus(`Bearer ${text}.${mac}`)).toBe(401)
  })

  test('rejects invalid keys', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    expect(await getStatus(forge(validHeader, claims, privateKey))).toBe(401)
    expect(
      await getStatus(
        forge({ ...validHeader, jwk: publicKey.export({ format: 'jwk' }) }, claims, privateKey),
      ),
    ).toBe(401)
    expect(await getStatus(forge({ ...validHeader, kid: '../../signing-key.pem' }, claims, privateKey))).toBe(
      401,
    )
  })

  test('rejects invalid encodings', async () => {
    const [head, body, signature] = token.split('.') as [string, string, string]
    const lastCharacter = signature.at(-1) as string
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    // the last of the 86 characters has four unused bits
    const sameBytes = alphabet[alphabet.indexOf(lastCharacter) ^ 1] as string
    const spellings = [
      `${token}!!`,
      `${head}.${body}.!!${signature}`,
      `${head}!!.${body}.${signature}`,
      `${token}=`,
      `${token}==`,
      `${token}.`,
      `${token}.x`,
      `.${token}`,
      `${head}.${body}.${signature.slice(0, -1)}${sameBytes}`,
      `${head}.${body}.${signature.slice(0, -1)}`,
      `${head}.${body}`,
      `${head}.${body}.`,
      `${head}.${encodePart({ ...claims, id: 'x' })}.${signature}`,
      '..',
      '',
    ]
    for (const spelling of spellings)
      expect([spelling, await getStatus(`Bearer ${spelling}`)]).toEqual([spelling, 401])
  })

  test('rejects invalid claims', async () => {
    const otherToken = await attacked.server.createToken('other')
    // signed with the key of another database, and with the key of the group for another database
    expect(await getStatus(`Bearer ${otherToken}`)).toBe(401)
    expect(await getStatus(forge(validHeader, { ...claims, id: databaseIdOf(otherToken) }))).toBe(404)
    for (const body of [
      { ...claims, id: 'other' },
      { ...claims, id: '' },
      { ...claims, p: { rw: { ns: ['other'] } } },
      { p: { rw: { ns: 'app' } } },
    ])
      expect([body, await getStatus(forge(validHeader, body))]).not.toEqual([body, 200])
    for (const body of [
      { ...claims, exp: 1 },
      { ...claims, exp: '9999999999' },
      JSON.stringify({ ...claims, exp: 0 }).replace('"exp":0', '"exp":1e999'),
      { ...claims, a: 'admin' },
      [],
      null,
    ])
      expect([body, await getStatus(forge(validHeader, body))]).toEqual([body, 401])
  })

  test('rejects paths of other databases', async () => {
    const authorization = `Bearer ${await attacked.server.createToken('other')}`
    const paths = words(`
    /other/../app/v3/pipeline /other/%2e%2e/app/v3/pipeline /other%2f..%2fapp/v3/pipeline
    //app/v3/pipeline /other//app/v3/pipeline /dev/app/v3/pipeline /other/dev/app/v3/pipeline
    /%61pp/v3/pipeline /APP/v3/pipeline /app%00/v3/pipeline /app;x/v3/pipeline
    /__proto__/v3/pipeline /v3/../app/v3/pipeline
  `)
    for (const path of paths) {
      const status = await postRaw(path, authorization)
      expect([path, status >= 400]).toEqual([path, true])
    }
    // the first version of the protocol is not supported
    const versionOnePaths = ['/', '/v1/execute', '/v1/batch', '/app/', '/app/v1/execute', '/app/v1/batch']
    for (const path of [
      ...versionOnePaths,
      '/v1/namespaces/x/create',
      '/metrics',
      '/console',
      '/v3-protobuf/pipeline',
    ])
      expect([path, await postRaw(path, authorization)]).toEqual([path, 404])
  })

  /** Sends a request with a path that is not normalized. */
  async function postRaw(path: string, authorization: string): Promise<number> {
    const { request } = await import('node:http')
    return await new Promise((resolve, reject) => {
      const { port } = attacked.server
      const call = request(
        { host: '127.0.0.1', port, path, method: 'POST', headers: { authorization } },
        (response) => {
          response.resume()
          resolve(response.statusCode ?? 0)
        },
      )
      call.on('error', reject)
      call.end(JSON.stringify(SELECT_BODY))
    })
  }

  test('rejects headers that name another database', async () => {
    const authorization = `Bearer ${await attacked.server.createToken('other')}`
    const id = String(claims['id'])
    const encodeBinary = (text: string): string => Buffer.from(text).toString('base64').replace(/=+$/, '')
    for (const headers of [
      { 'x-namespace-bin': encodeBinary(id) },
      { 'x-namespace-bin': encodeBinary('app') },
      { 'x-namespace': 'app' },
      { 'x-namespace': id },
      { host: 'app.localhost' },
      { 'x-forwarded-host': 'app.localhost', 'x-namespace': 'app' },
      { connection: 'x-namespace-bin', 'x-namespace-bin': encodeBinary('app') },
      { 'x-authorization': `Bearer ${token}`, 'x-namespace': 'app' },
      { 'x-proxy-authorization': `Bearer ${token}`, 'x-namespace': 'app' },
    ]) {
      const response = await attacked.post('/v3/pipeline', SELECT_BODY, { ...headers, authorization })
      expect([headers, response.status]).not.toEqual([headers, 200])
    }
    // the path takes precedence over any header
    const otherHeaders = { authorization, 'x-namespace-bin': encodeBinary(id), 'x-namespace': 'app' }
    const body = { requests: [execute('select count(*) from sqlite_schema'), close] }
    expect((await attacked.post('/other/v3/pipeline', body, otherHeaders)).status).toBe(200)
    expect((await attacked.post('/app/v3/pipeline', body, otherHeaders)).status).toBe(401)
  })

  test('a read-only token cannot write with a cursor', async () => {
    const headers = await attacked.headers('app', 'read-only')
    const body = {
      batch: { steps: [{ stmt: { sql: 'create table made(a)' } }, { stmt: { sql: 'select 42' } }] },
    }
    const { status, text } = await attacked.post('/app/v3/cursor', body, headers)
    const rejection = "Current session doesn't not have Write permission"
    expect([status, text.includes(rejection), text.includes('"42"')]).toEqual([403, true, false])
    const cursor = { batch: { steps: [{ stmt: { sql: 'select 42' } }] } }
    expect((await attacked.post('/app/v3/cursor', cursor, headers)).text).toContain('"value":"42"')
    const check = { requests: [execute('select count(*) from sqlite_schema'), close] }
    expect((await attacked.post('/app/v3/pipeline', check, await attacked.headers())).text).toContain(
      '"value":"0"',
    )
  })
})

test.each(BACKENDS)('requests for missing databases create no files: %s', async (backend) => {
  await using attacked = await AttackedServer.start({ backend, auth: false })
  for (let n = 0; n < 200; n += 1) {
    const { status } = await attacked.post(`/no-${n}/v3/pipeline`, SELECT_BODY)
    expect(status).toBe(404)
  }
  expect(attacked.server.requestCount('no-7')).toBe(0)
  expect(attacked.server.requestCount()).toBe(200)
  await attacked.post('/app/v3/pipeline', SELECT_BODY)
  expect(attacked.server.requestCount('app')).toBe(1)
})
