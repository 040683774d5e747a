import type { JsonWebKey } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type Algorithm, hmacWithPublicKey, Issuer } from '../../../../test/support/issuer.ts'
import { KeySets } from './key-sets.ts'

const LONG = { freshMs: 60_000, staleMs: 60_000, pauseMs: 0, timeoutMs: 60_000 }
const ALGORITHMS: readonly Algorithm[] = ['RS256', 'ES256', 'EdDSA']

const inAnHour = Math.floor(Date.now() / 1_000) + 3_600
const CLAIMS = { a: 'rw', exp: inAnHour }

async function start(): Promise<Issuer> {
  const issuer = await Issuer.start()
  onTestFinished(() => issuer[Symbol.asyncDispose]())
  vi.spyOn(console, 'error').mockImplementation(() => {})
  return issuer
}

/** Returns whether a token signed with an issuer's key is accepted. */
async function accepts(
  sets: KeySets,
  urls: readonly string[],
  signer: Issuer,
  kid: string,
): Promise<boolean> {
  const claims = await sets.verify(urls, signer.token(kid, CLAIMS))
  if (claims !== null) expect(claims).toEqual(CLAIMS)
  return claims !== null
}

test('accepts a token only if it is unchanged and uses the algorithm of its key', async () => {
  const issuer = await start()
  const sets = new KeySets(LONG)
  for (const algorithm of ALGORITHMS) issuer.add(algorithm, algorithm)
  const verify = (token: string) => sets.verify([issuer.url], token)
  for (const kid of ALGORITHMS) {
    const token = (header: object, sign?: (text: Buffer) => Buffer) => issuer.token(kid, CLAIMS, header, sign)
    const validToken = token({})
    expect(await verify(validToken)).toEqual(CLAIMS)
    const [head = '', body = '', signature = ''] = validToken.split('.')
    const bytes = Buffer.from(signature, 'base64url')
    const asDer = Buffer.concat([
      Buffer.of(0x30, 0x44, 2, 0x20),
      bytes.subarray(0, 32),
      Buffer.of(2, 0x20),
      bytes.subarray(32, 64),
    ])
    for (const badSignature of [Buffer.of(), Buffer.alloc(64), Buffer.alloc(256), bytes.subarray(1), asDer])
      expect(await verify(`${head}.${body}.${badSignature.toString('base64url')}`)).toBeNull()
    for (const text of [
      '',
      head,
      `${head}.${body}`,
      `${validToken}.`,
      `${validToken}.e30`,
      `${head}.e30.${signature}`,
    ])
      expect([text, await verify(text)]).toEqual([text, null])
    for (const alg of ['none', 'HS256', 'RS512', 'PS256', 'ES384', 'eddsa', undefined, null, 5, ['RS256']])
      expect([alg, await verify(token({ alg }))]).toEqual([alg, null])
    expect(await verify(token({ alg: 'none' }, () => Buffer.of()))).toBeNull()
    expect(
      await verify(token({ alg: 'HS256' }, hmacWithPublicKey(JSON.stringify(issuer.keys.get(kid))))),
    ).toBeNull()
    for (const otherAlgorithm of ALGORITHMS.filter((name) => name !== kid)) {
      expect(await verify(token({ kid: otherAlgorithm }))).toBeNull()
      expect(await verify(token({ alg: otherAlgorithm }))).toBeNull()
      expect(await verify(token({ alg: otherAlgorithm, kid: otherAlgorithm }))).toBeNull()
    }
    for (const rule of [{ crit: ['b64'], b64: false }, { crit: ['exp'] }, { crit: [] }, { crit: 'x' }])
      expect([rule, await verify(token(rule))]).toEqual([rule, null])
  }
})

test('rejects invalid claims without another request to the issuer', async () => {
  const issuer = await start()
  issuer.add('a', 'EdDSA')
  const sets = new KeySets(LONG)
  const verify = (claims: object | string) => sets.verify([issuer.url], issuer.token('a', claims))
  const now = Math.floor(Date.now() / 1_000)
  expect(await verify({ exp: now - 30, nbf: now + 30 })).not.toBeNull()
  for (const [claims, claim] of [
    [{ exp: now - 3_600 }, 'exp'],
    [{}, 'exp'],
    [{ exp: String(inAnHour) }, 'exp'],
    [{ exp: null }, 'exp'],
    ['{"exp":-1e999}', 'exp'],
    [{ exp: inAnHour, nbf: now + 3_600 }, 'nbf'],
    [{ exp: inAnHour, nbf: String(now) }, 'nbf'],
    [`{"exp":${inAnHour},"nbf":1e999}`, 'nbf'],
  ] as const)
    await expect(verify(claims)).rejects.toMatchObject({ claim })
  for (const text of ['[]', 'null', '5', 'not JSON']) expect(await verify(text)).toBeNull()
  // the first one, and one for each of the last four tokens, which no key can make valid
  expect(issuer.requestCount).toBe(5)
})

test('fetches a set once for many tokens, and again for a key that is not in it', async () => {
  const issuer = await start()
  const sets = new KeySets(LONG)
  issuer.add('a', 'ES256')
  const find = (kid: string) => accepts(sets, [issuer.url], issuer, kid)
  const many = await Promise.all(Array.from({ length: 20 }, () => find('a')))
  expect([many.every((isAccepted) => isAccepted), issuer.requestCount]).toEqual([true, 1])
  issuer.add('b', 'EdDSA')
  expect([await find('b'), await find('a'), issuer.requestCount]).toEqual([true, true, 2])
})

test('does not fetch a set that is not needed, because its issuer may be slow', async () => {
  const [issuer, otherIssuer] = [await start(), await start()]
  issuer.add('a', 'ES256')
  const sets = new KeySets(LONG)
  const urls = [issuer.url, otherIssuer.url]
  for (let time = 0; time < 3; time += 1) expect(await accepts(sets, urls, issuer, 'a')).toBe(true)
  expect([issuer.requestCount, otherIssuer.requestCount]).toEqual([1, 1])
})

test('distinguishes keys with the same id: from two issuers, in one set, and after a replacement', async () => {
  const [issuer, otherIssuer] = [await start(), await start()]
  const sets = new KeySets(LONG)
  const isSignedBy = (signer: Issuer) => accepts(sets, [issuer.url, otherIssuer.url], signer, 'key')
  const first = issuer.add('key', 'ES256')
  expect(await isSignedBy(issuer)).toBe(true)
  otherIssuer.add('key', 'ES256')
  expect(await isSignedBy(otherIssuer)).toBe(true)
  issuer.add('key', 'EdDSA')
  expect(await isSignedBy(issuer)).toBe(true)
  issuer.add('key', 'ES256')
  issuer.keys.set('the first of that name', first)
  issuer.keys.set('one that is unusable', { ...first, x: 'AA' })
  expect(await isSignedBy(issuer)).toBe(true)
  // the other issuer has an unusable key with the id of a good one
  otherIssuer.keys.set('key', { ...first, x: 'AA' })
  const reversed = new KeySets(LONG)
  expect(await accepts(reversed, [otherIssuer.url, issuer.url], issuer, 'key')).toBe(true)
  expect(await accepts(reversed, [otherIssuer.url, issuer.url], otherIssuer, 'key')).toBe(false)
})

test('does not send a request for each unknown key', async () => {
  const issuer = await start()
  const sets = new KeySets({ ...LONG, pauseMs: 60_000 })
  issuer.add('a', 'EdDSA')
  const tokenWithUnknownKey = (number: number) => issuer.token('a', CLAIMS, { kid: `unknown-${number}` })
  for (let number = 0; number < 20; number += 1)
    expect(await sets.verify([issuer.url], tokenWithUnknownKey(number))).toBeNull()
  expect(issuer.requestCount).toBe(1)
})

test('does not send a request to a failing issuer for each token', async () => {
  const issuer = await start()
  const sets = new KeySets({ ...LONG, freshMs: 0, pauseMs: 60_000 })
  issuer.add('a', 'EdDSA')
  issuer.customResponse = { status: 500, body: '' }
  for (let time = 0; time < 5; time += 1) expect(await accepts(sets, [issuer.url], issuer, 'a')).toBe(false)
  expect(issuer.requestCount).toBe(1)
})

test('fetches a stale set again, so that a key that its issuer has removed is no longer valid', async () => {
  const issuer = await start()
  const sets = new KeySets({ ...LONG, freshMs: 0 })
  issuer.add('a', 'ES256')
  expect(await accepts(sets, [issuer.url], issuer, 'a')).toBe(true)
  issuer.keys.clear()
  expect(await accepts(sets, [issuer.url], issuer, 'a')).toBe(false)
})

test('a removed key is no longer valid even if the clock was set back', async () => {
  const issuer = await start()
  const sets = new KeySets({ ...LONG, freshMs: 1 })
  issuer.add('a', 'ES256')
  expect(await accepts(sets, [issuer.url], issuer, 'a')).toBe(true)
  issuer.keys.clear()
  const real = Date.now
  vi.spyOn(Date, 'now').mockImplementation(() => real() - 3_600_000)
  const untilSetIsStale = sleep(10)
  await untilSetIsStale
  expect(await accepts(sets, [issuer.url], issuer, 'a')).toBe(false)
})

test('keys remain valid for a limited time while their issuer is unreachable', async () => {
  const issuer = await start()
  issuer.add('a', 'ES256')
  const longLived = new KeySets({ ...LONG, freshMs: 0 })
  const shortLived = new KeySets({ ...LONG, freshMs: 0, staleMs: 200 })
  const find = (sets: KeySets) => accepts(sets, [issuer.url], issuer, 'a')
  for (const sets of [longLived, shortLived]) expect(await find(sets)).toBe(true)
  for (const customResponse of [
    { status: 500, body: '' },
    { status: 200, body: '' },
    { status: 200, body: '<!doctype html><title>Maintenance</title>' },
    { status: 200, body: 'null' },
    { status: 200, body: '{"keys":{}}' },
    { status: 200, body: '{"keys":[null]}' },
    { status: 200, body: `{"keys":[${' '.repeat(300_000)}]}` },
    { status: 302, body: '', location: issuer.url },
  ]) {
    issuer.customResponse = customResponse
    const { requestCount } = issuer
    expect([customResponse.body.slice(0, 20), await find(longLived)]).toEqual([
      customResponse.body.slice(0, 20),
      true,
    ])
    // a redirect is not followed
    expect(issuer.requestCount).toBe(requestCount + 1)
  }
  const untilKeysExpire = sleep(250)
  await untilKeysExpire
  expect(await find(shortLived)).toBe(false)
  longLived.forget(issuer.url)
  expect(await find(longLived)).toBe(false)
})

test('treats an issuer that does not respond in time as unreachable', async () => {
  const issuer = await start()
  issuer.add('a', 'ES256')
  const sets = new KeySets({ ...LONG, freshMs: 0, timeoutMs: 50 })
  issuer.responseGate = new Promise(() => {})
  expect(await accepts(sets, [issuer.url], issuer, 'a')).toBe(false)
  expect(vi.mocked(console.error)).toHaveBeenCalledWith(expect.stringContaining('timeout'))
})

test('uses only keys that are public, long enough, and meant for signatures', async () => {
  const issuer = await start()
  const sets = new KeySets(LONG)
  const isUsed = async (kid: string): Promise<boolean> => await accepts(sets, [issuer.url], issuer, kid)
  const replace = (kid: string, change: (jwk: JsonWebKey) => object): string => {
    issuer.keys.set(kid, change(issuer.keys.get(kid) as JsonWebKey) as JsonWebKey)
    return kid
  }
  issuer.add('for encryption', 'RS256', { use: 'enc' })
  issuer.add('for another algorithm', 'RS256', { alg: 'PS256' })
  issuer.add('for signing', 'ES256', { key_ops: ['sign'] })
  issuer.add('for a value that is not a list', 'ES256', { key_ops: 'verify' })
  issuer.add('short', 'RS256', {}, 1_024)
  for (const kid of ['no name', 'cut', 'another curve', 'a secret', 'nothing']) issuer.add(kid, 'ES256')
  replace('no name', (jwk) => ({ ...jwk, kid: undefined }))
  replace('cut', (jwk) => ({ ...jwk, x: 'AA' }))
  replace('another curve', (jwk) => ({ ...jwk, crv: 'secp256k1' }))
  replace('a secret', () => ({ kty: 'oct', k: 'c2VjcmV0', kid: 'a secret', alg: 'HS256' }))
  replace('nothing', () => ({ kid: 'nothing' }))
  issuer.add('Ed448', 'EdDSA')
  replace('Ed448', (jwk) => ({ ...jwk, crv: 'Ed448' }))
  const unused = [...issuer.keys.keys()]
  issuer.add('a', 'RS256', { use: 'sig', alg: 'RS256', key_ops: ['verify'] })
  issuer.add('b', 'EdDSA')
  for (const kid of unused) expect([kid, await isUsed(kid)]).toEqual([kid, false])
  expect([await isUsed('a'), await isUsed('b')]).toEqual([true, true])
  const secret = issuer.token('a secret', CLAIMS, { alg: 'HS256' }, hmacWithPublicKey('secret'))
  expect(await sets.verify([issuer.url], secret)).toBeNull()
})
