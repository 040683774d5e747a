import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { expect, test } from 'vitest'
import { decodeClaims, decodeHeader, newKeyPair, signToken, verifyToken } from './jwt.ts'

const key = newKeyPair()
const publicKey = createPublicKey(key.publicPem)
const token = signToken(key, { id: 'd' }, 5_000)
const unsigned = token.split('.').slice(0, 2).join('.')

test('keys of other types verify no token, and do not prevent its verification', () => {
  const others = [
    generateKeyPairSync('x25519'),
    generateKeyPairSync('rsa', { modulusLength: 2_048 }),
    generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  ].map((pair) => pair.publicKey)
  expect(verifyToken(token, [...others, publicKey])).toEqual({ id: 'd', iat: 5 })
  expect(verifyToken(token, others)).toBeNull()
})

test.each(['', '.', '..', 'text', unsigned, `${unsigned}.`, `${token}.`, `${token}.x`])(
  'not a token: %j',
  (text) => {
    expect(verifyToken(text, [publicKey])).toBeNull()
  },
)

test('only a token has a header and claims', () => {
  expect([decodeHeader(token)?.['alg'], decodeClaims(token)?.['id']]).toEqual(['EdDSA', 'd'])
  expect([decodeHeader(unsigned), decodeClaims(unsigned)]).toEqual([null, null])
})
