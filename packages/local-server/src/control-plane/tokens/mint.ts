import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { SignJWT } from 'jose'
import type { KeyPair } from '../registry/rows.ts'

/** A fresh Ed25519 key pair. */
export function newKeyPair(): KeyPair {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return {
    privatePem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  }
}

/** Claims of a token, besides the time it was made. */
export interface TokenClaims {
  readonly exp?: number
  readonly [name: string]: unknown
}

/** Makes a signed token (JWT, EdDSA). `exp` is in seconds since 1970. */
export async function mintToken(key: KeyPair, claims: TokenClaims, issuedAtMs = Date.now()): Promise<string> {
  return await new SignJWT({ ...claims, iat: Math.floor(issuedAtMs / 1_000) })
    .setProtectedHeader({ alg: 'EdDSA', typ: 'JWT' })
    .sign(privateKeyOf(key))
}

const privateKeys = new WeakMap<KeyPair, KeyObject>()

function privateKeyOf(key: KeyPair): KeyObject {
  const known = privateKeys.get(key)
  if (known !== undefined) return known
  const made = createPrivateKey(key.privatePem)
  privateKeys.set(key, made)
  return made
}
