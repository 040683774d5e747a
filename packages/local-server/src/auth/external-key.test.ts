import { expect, onTestFinished, test } from 'vitest'
import { type Algorithm, Issuer } from '../../../../test/support/issuer.ts'
import { type ExternalKey, hasSigned, readKeySet } from './external-key.ts'
import { partsOf, type TokenParts } from './jwt.ts'

const ALGORITHMS: readonly Algorithm[] = ['RS256', 'ES256', 'EdDSA']

test('a key has signed what it has signed, in the form of its algorithm, and nothing else', async () => {
  const issuer = await Issuer.start()
  onTestFinished(() => issuer[Symbol.asyncDispose]())
  for (const algorithm of ALGORITHMS) issuer.add(algorithm, algorithm)
  const keys = readKeySet(JSON.stringify({ keys: [...issuer.keys.values()] }))
  const parts = (token: string): TokenParts => partsOf(token) as TokenParts
  for (const algorithm of ALGORITHMS) {
    const key = keys.find(({ id }) => id === algorithm) as ExternalKey
    const good = parts(issuer.token(algorithm, { a: 1 }))
    expect(hasSigned(key, good)).toBe(true)
    const asDer = Buffer.concat([
      Buffer.of(0x30, 0x44, 2, 0x20),
      good.seal.subarray(0, 32),
      Buffer.of(2, 0x20),
    ])
    for (const seal of [Buffer.of(), Buffer.alloc(64), Buffer.alloc(256), good.seal.subarray(1), asDer])
      expect(hasSigned(key, { ...good, seal })).toBe(false)
    expect(hasSigned(key, { ...good, signed: Buffer.concat([good.signed, Buffer.of(0)]) })).toBe(false)
    for (const alg of ['none', 'HS256', 'RS512', 'PS256', 'eddsa', undefined, null, 5, ['RS256']])
      expect([alg, hasSigned(key, { ...good, header: { alg } })]).toEqual([alg, false])
    for (const other of keys.filter(({ id }) => id !== algorithm))
      for (const alg of ALGORITHMS) expect(hasSigned(other, { ...good, header: { alg } })).toBe(false)
  }
})
