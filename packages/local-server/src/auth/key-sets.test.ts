import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Issuer } from '../../../../test/support/issuer.ts'
import { type ExternalKey, hasSigned, readKeySet } from './external-key.ts'
import { partsOf } from './jwt.ts'
import { KeySets } from './key-sets.ts'

const LONG = { freshMs: 60_000, keptMs: 60_000, pauseMs: 0 }

const named = (id: string) => (key: ExternalKey) => key.id === id

async function start(): Promise<Issuer> {
  const issuer = await Issuer.start()
  onTestFinished(() => issuer[Symbol.asyncDispose]())
  vi.spyOn(console, 'error').mockImplementation(() => {})
  onTestFinished(() => void vi.restoreAllMocks())
  return issuer
}

test('a set is asked for once by many, and again for a key that is not in it', async () => {
  const issuer = await start()
  const sets = new KeySets(LONG)
  issuer.add('a', 'ES256')
  const find = (id: string) => sets.have([issuer.url], named(id))
  const many = await Promise.all(Array.from({ length: 20 }, () => find('a')))
  expect([many.every((isThere) => isThere), issuer.asked]).toEqual([true, 1])
  issuer.add('b', 'EdDSA')
  expect([await find('b'), await find('a'), issuer.asked]).toEqual([true, true, 2])
})

test('a set that is not needed is not asked for: it may be slow', async () => {
  const [issuer, other] = [await start(), await start()]
  issuer.add('a', 'ES256')
  const sets = new KeySets(LONG)
  const both = [issuer.url, other.url]
  for (let time = 0; time < 3; time += 1) expect(await sets.have(both, named('a'))).toBe(true)
  expect([issuer.asked, other.asked]).toEqual([1, 1])
})

test('issuers that give their keys the same name are told apart, and so is a key that was replaced under its name', async () => {
  const [issuer, other] = [await start(), await start()]
  const sets = new KeySets(LONG)
  const both = [issuer.url, other.url]
  const isSignedBy = async (by: Issuer): Promise<boolean> => {
    const parts = partsOf(by.token('key', {}))
    return await sets.have(both, (key) => parts !== null && hasSigned(key, parts))
  }
  issuer.add('key', 'ES256')
  expect(await isSignedBy(issuer)).toBe(true)
  other.add('key', 'ES256')
  expect(await isSignedBy(other)).toBe(true)
  issuer.add('key', 'EdDSA')
  expect(await isSignedBy(issuer)).toBe(true)
})

test('unknown keys do not make it be asked for without end', async () => {
  const issuer = await start()
  const sets = new KeySets({ ...LONG, pauseMs: 60_000 })
  for (let number = 0; number < 20; number += 1)
    expect(await sets.have([issuer.url], named(`unknown-${number}`))).toBe(false)
  expect(issuer.asked).toBe(1)
})

test('a set that is not fresh is asked for again: a key that its issuer has taken away is good no longer', async () => {
  const issuer = await start()
  const sets = new KeySets({ ...LONG, freshMs: 0 })
  issuer.add('a', 'ES256')
  expect(await sets.have([issuer.url], named('a'))).toBe(true)
  issuer.keys.clear()
  expect(await sets.have([issuer.url], named('a'))).toBe(false)
})

test('while the issuer does not answer its keys are kept, but not for ever', async () => {
  const issuer = await start()
  issuer.add('a', 'ES256')
  const kept = new KeySets({ ...LONG, freshMs: 0 })
  const short = new KeySets({ freshMs: 0, keptMs: 200, pauseMs: 0 })
  for (const sets of [kept, short]) expect(await sets.have([issuer.url], named('a'))).toBe(true)
  for (const answer of [
    { status: 500, body: '' },
    { status: 200, body: 'no JSON' },
    { status: 200, body: '{"keys":{}}' },
    { status: 200, body: `{"keys":[${' '.repeat(300_000)}]}` },
    { status: 302, body: '', location: issuer.url },
  ]) {
    issuer.answer = answer
    expect(await kept.have([issuer.url], named('a'))).toBe(true)
  }
  const passesTheTimeThatKeysAreKept = sleep(250)
  await passesTheTimeThatKeysAreKept
  expect(await short.have([issuer.url], named('a'))).toBe(false)
  kept.forget(issuer.url)
  expect(await kept.have([issuer.url], named('a'))).toBe(false)
})

test('of a set only those keys are read that are public, long enough, and for signatures', async () => {
  const issuer = await start()
  const wrong = [
    issuer.add('for encryption', 'RS256', { use: 'enc' }),
    issuer.add('for another algorithm', 'RS256', { alg: 'PS256' }),
    issuer.add('for signing', 'ES256', { key_ops: ['sign'] }),
    issuer.add('short', 'RS256', {}, 1_024),
    { ...issuer.add('x', 'ES256'), kid: undefined },
    { ...issuer.add('x', 'ES256'), kid: '' },
    { ...issuer.add('x', 'ES256'), x: 'AA' },
    { ...issuer.add('x', 'ES256'), crv: 'secp256k1' },
    { ...issuer.add('x', 'EdDSA'), crv: 'Ed448' },
    { kty: 'oct', k: 'c2VjcmV0', kid: 'secret', alg: 'HS256' },
    { kid: 'nothing' },
    null,
    5,
  ]
  expect(readKeySet(JSON.stringify({ keys: wrong }))).toEqual([])
  const right = [issuer.add('a', 'RS256', { use: 'sig', alg: 'RS256' }), issuer.add('b', 'EdDSA')]
  expect(readKeySet(JSON.stringify({ keys: [...wrong, ...right] })).map(({ id }) => id)).toEqual(['a', 'b'])
})
