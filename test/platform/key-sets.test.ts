import { createPublicKey } from 'node:crypto'
import { expect, inject, onTestFinished, test } from 'vitest'
import { hmacWithPublicKey, Issuer } from '../support/issuer.ts'
import { Harness, sql } from './platform-harness.ts'

const KEY_SETS_PATH = '/v2/organizations/local/jwks'

async function startWithIssuer() {
  const harness = await Harness.forTest()
  const issuer = await Issuer.start()
  onTestFinished(() => issuer[Symbol.asyncDispose]())
  const app = await harness.createDatabase('app')
  await sql(app.host, await harness.tokenFor('app'), ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (7)'])
  await harness.requestOk('PUT', `${KEY_SETS_PATH}/idp`, { body: { jwks_url: issuer.url, region: 'local' } })
  const inAnHour = Math.floor(Date.now() / 1_000) + 3_600
  const getTemplate = async (body: object) =>
    (await harness.requestOk('POST', '/v2/organizations/local/jwks-template', { body })).template
  return { harness, issuer, app, inAnHour, getTemplate }
}

test('databases accept the tokens of a configured issuer, within the limits of its template', async () => {
  const { harness, issuer, app, inAnHour, getTemplate } = await startWithIssuer()
  expect(await harness.requestOk('GET', KEY_SETS_PATH)).toEqual({
    jwks: [{ jwks_name: 'idp', jwks_url: issuer.url }],
  })
  const fullAccess = { ...(await getTemplate({ database: 'app', scope: 'full-access' })), exp: inAnHour }
  const readOnly = { ...(await getTemplate({ database: 'app', scope: 'read-only' })), exp: inAnHour }
  const groupClaims = { ...(await getTemplate({ group: 'default', scope: 'full-access' })), exp: inAnHour }
  expect([fullAccess.id, groupClaims.id, typeof groupClaims.gid]).toEqual([app.id, undefined, 'string'])
  for (const algorithm of ['RS256', 'ES256', 'EdDSA'] as const) issuer.add(algorithm, algorithm)
  for (const algorithm of ['RS256', 'ES256', 'EdDSA'] as const) {
    const write = (claims: object) =>
      sql(app.host, issuer.token(algorithm, claims), ['UPDATE t SET a = 7', 'SELECT a FROM t'])
    for (const claims of [fullAccess, groupClaims]) expect((await write(claims)).rows).toEqual([['7']])
    const read = await sql(app.host, issuer.token(algorithm, readOnly), 'SELECT a FROM t')
    expect(read).toMatchObject({ status: 200, rows: [['7']] })
    const rejected = await write(readOnly)
    expect(rejected.status === 403 || rejected.error !== null).toBe(true)
  }
  expect(issuer.requestCount).toBe(1)
  const headers = { authorization: `Bearer ${issuer.token('EdDSA', readOnly)}` }
  expect(await (await fetch(`http://${app.host}/dump`, { headers })).text()).toContain('INSERT INTO t')
  // other tokens remain valid
  expect((await sql(app.host, await harness.tokenFor('app'), 'SELECT a FROM t')).rows).toEqual([['7']])
})

test('invalid tokens are rejected', async () => {
  const { harness, issuer, app, inAnHour } = await startWithIssuer()
  const otherDatabase = await harness.createDatabase('other')
  await harness.createGroup('team')
  const { group: team } = await harness.requestOk('GET', 'groups/team')
  const jwk = issuer.add('rsa', 'RS256')
  issuer.add('ed', 'EdDSA')
  const validClaims = { a: 'rw', id: app.id, exp: inAnHour }
  const getStatus = async (token: string, host = app.host) => (await sql(host, token, 'SELECT 1')).status
  expect(await getStatus(issuer.token('rsa', validClaims))).toBe(200)
  const pem = createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' }).toString()
  const secondsFromNow = (offset: number): number => Math.floor(Date.now() / 1_000) + offset
  const signedWith = (publicKey: string): string =>
    issuer.token('rsa', validClaims, { alg: 'HS256' }, hmacWithPublicKey(publicKey))
  const infiniteExpiry = JSON.stringify({ ...validClaims, exp: 0 }).replace('"exp":0', '"exp":1e999')
  const invalidTokens: Record<string, string> = {
    'no signature': issuer.token('rsa', validClaims, { alg: 'none' }, () => Buffer.of()),
    'a public key used as a secret': signedWith(pem),
    'a public key used as a secret, in the issuer’s format': signedWith(JSON.stringify(jwk)),
    'the algorithm of another key': issuer.token('rsa', validClaims, { alg: 'EdDSA' }),
    'the id of another key': issuer.token('rsa', validClaims, { kid: 'ed' }),
    'an unknown key': issuer.token('rsa', validClaims, { kid: 'unknown' }),
    'an invalid key id': issuer.token('rsa', validClaims, { kid: 5 }),
    'an empty key id': issuer.token('rsa', validClaims, { kid: '' }),
    'no key id': issuer.token('ed', validClaims, { kid: undefined }),
    'a key in the token itself': issuer.token('ed', validClaims, {
      kid: 'own',
      jwk: issuer.add('own', 'EdDSA'),
    }),
    'an unsupported extension': issuer.token('rsa', validClaims, { crit: ['b64'], b64: false }),
    'another signature': issuer.token('rsa', validClaims, {}, () => Buffer.alloc(256, 1)),
    'an expiry in the past': issuer.token('rsa', { ...validClaims, exp: secondsFromNow(-3_600) }),
    'no expiry': issuer.token('rsa', { ...validClaims, exp: undefined }),
    'an expiry that is not representable': issuer.token('rsa', infiniteExpiry),
    'an expiry that is not a number': issuer.token('rsa', { ...validClaims, exp: String(inAnHour) }),
    'a start in the future': issuer.token('rsa', { ...validClaims, nbf: secondsFromNow(3_600) }),
    'a start that is not a number': issuer.token('rsa', { ...validClaims, nbf: String(secondsFromNow(-60)) }),
    'another audience': issuer.token('rsa', { ...validClaims, aud: 'shop' }),
    'no access': issuer.token('rsa', { ...validClaims, a: undefined }),
    'invalid permissions': issuer.token('rsa', { ...validClaims, a: 'roa' }),
    'permissions as lists': issuer.token('rsa', { ...validClaims, p: { rw: { ns: [app.id] } } }),
  }
  issuer.keys.delete('own')
  for (const [reason, token] of Object.entries(invalidTokens))
    expect([reason, await getStatus(token)]).toEqual([reason, 401])
  const messages: Record<string, string> = {
    'an expiry in the past': 'The JWT has expired',
    'an expiry that is not a number': 'The JWT is invalid',
    'a start in the future': 'The JWT is not valid yet',
  }
  for (const [reason, message] of Object.entries(messages)) {
    const { error } = await sql(app.host, invalidTokens[reason] ?? '', 'SELECT 1')
    expect([reason, error]).toEqual([reason, expect.stringContaining(message)])
  }
  const inapplicableClaims: Record<string, object> = {
    'another database': { ...validClaims, id: otherDatabase.id },
    'another group': { a: 'rw', gid: team.uuid, exp: inAnHour },
    'a group that does not contain the database': { ...validClaims, gid: team.uuid },
    'no database': { a: 'rw', exp: inAnHour },
    'a name instead of an id': { ...validClaims, id: 'app' },
  }
  for (const [reason, claims] of Object.entries(inapplicableClaims))
    expect([reason, await getStatus(issuer.token('rsa', claims))]).toEqual([reason, 404])
  expect(await getStatus(issuer.token('rsa', validClaims), otherDatabase.host)).toBe(404)
  // the token can read only the table u, or is rejected
  const narrowClaims = { ...validClaims, perm: [{ t: ['u'], a: ['data_read'] }] }
  const read = await sql(app.host, issuer.token('rsa', narrowClaims), 'SELECT a FROM t')
  expect(read.rows).toEqual([])
  if (inject('target') === 'sqld') expect(read.status).toBe(401)
  expect(await getStatus(issuer.token('rsa', validClaims))).toBe(200)
})

test('an issuer is trusted only by the organization that configured it, until it is removed', async () => {
  const { harness, issuer, app, inAnHour } = await startWithIssuer()
  issuer.add('key', 'EdDSA')
  const token = issuer.token('key', { a: 'rw', id: app.id, exp: inAnHour })
  const transaction = await sql(app.host, token, ['BEGIN', 'INSERT INTO t VALUES (8)'], { keepOpen: true })
  expect(transaction.error).toBeNull()
  const headers = { authorization: `Bearer ${token}` }
  const changes = await fetch(`http://${app.host}/beta/listen?table=t`, { headers })
  let hasEnded = false
  const end = (): void => void (hasEnded = true)
  void changes.body?.pipeTo(new WritableStream()).then(end, end)
  await harness.createOrganization('mine')
  const { database } = await harness.requestOk('POST', '/v1/organizations/mine/databases', {
    body: { name: 'app', group: 'default' },
  })
  const foreignToken = issuer.token('key', { a: 'rw', id: database.DbId, exp: inAnHour })
  expect((await sql(database.Hostname, foreignToken, 'SELECT 1')).status).toBe(401)
  expect([changes.status, hasEnded]).toEqual([200, false])
  await harness.requestOk('DELETE', `${KEY_SETS_PATH}/idp`, { body: { region: 'local' } })
  await expect.poll(() => hasEnded).toBe(true)
  expect((await sql(app.host, token, 'SELECT 1')).status).toBe(401)
  expect((await sql(app.host, token, 'COMMIT', { baton: transaction.baton })).status).toBe(401)
  expect((await sql(app.host, await harness.tokenFor('app'), 'SELECT a FROM t')).rows).toEqual([['7']])
  expect(await harness.statusOf('DELETE', `${KEY_SETS_PATH}/idp`)).toBe(404)
  expect(await harness.requestOk('GET', KEY_SETS_PATH)).toEqual({ jwks: [] })
})

test('a key set that is removed while it is being fetched authorizes no request', async () => {
  const { harness, issuer, app, inAnHour } = await startWithIssuer()
  issuer.add('key', 'EdDSA')
  const { promise, resolve } = Promise.withResolvers<void>()
  issuer.responseGate = promise
  const token = issuer.token('key', { a: 'rw', id: app.id, exp: inAnHour })
  // its keys are still cached for another organization
  await harness.requestOk('POST', '/v1/organizations', { body: { name: 'mine' } })
  await harness.requestOk('PUT', '/v2/organizations/mine/jwks/same', { body: { jwks_url: issuer.url } })
  const pending = sql(app.host, token, 'INSERT INTO t VALUES (8)')
  await expect.poll(() => issuer.requestCount).toBe(1)
  await harness.requestOk('DELETE', `${KEY_SETS_PATH}/idp`, { body: { region: 'local' } })
  resolve()
  expect((await pending).status).toBe(401)
  expect((await sql(app.host, await harness.tokenFor('app'), 'SELECT a FROM t')).rows).toEqual([['7']])
})

test('an address that is disallowed while a key set is being fetched is rejected', async () => {
  const { harness, issuer, app, inAnHour } = await startWithIssuer()
  issuer.add('key', 'EdDSA')
  const { promise, resolve } = Promise.withResolvers<void>()
  issuer.responseGate = promise
  const token = issuer.token('key', { a: 'rw', id: app.id, exp: inAnHour })
  const pending = sql(app.host, token, 'INSERT INTO t VALUES (8)')
  await expect.poll(() => issuer.requestCount).toBe(1)
  const configure = (body: object) => harness.configure('app', body)
  await configure({ allowed_ips: ['10.0.0.1'] })
  resolve()
  expect((await pending).status).toBe(403)
  await configure({ allowed_ips: [] })
  expect((await sql(app.host, token, 'SELECT a FROM t')).rows).toEqual([['7']])
})

test('finds a new key of the issuer, and accepts known keys while the issuer is unreachable', async () => {
  const { issuer, app, inAnHour } = await startWithIssuer()
  issuer.add('first', 'ES256')
  const getStatus = async (kid: string) =>
    (await sql(app.host, issuer.token(kid, { a: 'ro', id: app.id, exp: inAnHour }), 'SELECT 1')).status
  expect(await getStatus('first')).toBe(200)
  issuer.add('second', 'ES256')
  // the next request to the issuer is sent after 10 s at the earliest
  await expect.poll(() => getStatus('second'), { timeout: 60_000 }).toBe(200)
  expect(issuer.requestCount).toBe(2)
  issuer.customResponse = { status: 500, body: '' }
  issuer.add('third', 'ES256')
  expect([await getStatus('first'), await getStatus('third')]).toEqual([200, 401])
})

test('removing an issuer from one organization does not affect another one', async () => {
  const { harness, issuer, app, inAnHour } = await startWithIssuer()
  issuer.add('key', 'EdDSA')
  const token = issuer.token('key', { a: 'ro', id: app.id, exp: inAnHour })
  const getStatus = async () => (await sql(app.host, token, 'SELECT 1')).status
  expect(await getStatus()).toBe(200)
  issuer.customResponse = { status: 500, body: '' }
  await harness.requestOk('POST', '/v1/organizations', { body: { name: 'mine' } })
  const path = '/v2/organizations/mine/jwks/same'
  await harness.requestOk('PUT', path, { body: { jwks_url: issuer.url } })
  await harness.requestOk('DELETE', path)
  expect(await getStatus()).toBe(200)
  await harness.requestOk('DELETE', `${KEY_SETS_PATH}/idp`)
  expect(await getStatus()).toBe(401)
  // its keys are no longer cached: the issuer may have replaced them since
  await harness.requestOk('PUT', `${KEY_SETS_PATH}/idp`, { body: { jwks_url: issuer.url } })
  expect(await getStatus()).toBe(401)
})

test('only valid key sets are saved', async () => {
  const { harness } = await startWithIssuer()
  const withPassword = 'https://user:secret@issuer.test/jwks.json'
  for (const jwks_url of ['http://issuer.test/jwks.json', withPassword, 'file:///etc/passwd', 'nowhere', 5])
    expect(await harness.statusOf('PUT', `${KEY_SETS_PATH}/x`, { body: { jwks_url } })).toBe(400)
  const requestTemplate = (body: object) =>
    harness.statusOf('POST', '/v2/organizations/local/jwks-template', { body })
  expect(await requestTemplate({})).toBe(400)
  expect(await requestTemplate({ database: 'app', group: 'default' })).toBe(400)
  expect(await requestTemplate({ database: 'nowhere' })).toBe(404)
  expect(await requestTemplate({ database: 'app', scope: 'everything' })).toBe(400)
  const body = { jwks_url: 'https://issuer.test/jwks' }
  for (let number = 2; number <= 10; number += 1)
    await harness.requestOk('PUT', `${KEY_SETS_PATH}/set-${number}`, { body })
  expect(await harness.statusOf('PUT', `${KEY_SETS_PATH}/one-too-many`, { body })).toBe(400)
})
