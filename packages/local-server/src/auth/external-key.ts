import { createPublicKey, type JsonWebKey, type KeyObject, verify } from 'node:crypto'
import type { TokenParts } from './jwt.ts'

/** The kind of key that an algorithm is for. Others are not known: a key is never used in another way than its own. */
const KINDS = { RS256: 'RSA', ES256: 'EC P-256', EdDSA: 'OKP Ed25519' } as const
type Algorithm = keyof typeof KINDS

const MIN_RSA_BITS = 2_048

/** A public key of an issuer, as its key set (JWKS) has it. */
export interface ExternalKey {
  readonly id: string
  readonly algorithm: Algorithm
  readonly key: KeyObject
}

/** The keys of a key set that signatures can be checked with; others are left out. @throws Error for what is no key set */
export function readKeySet(text: string): readonly ExternalKey[] {
  const set: unknown = JSON.parse(text)
  const keys = (set as { readonly keys?: unknown } | null)?.keys
  if (!Array.isArray(keys)) throw new Error('it has no list of keys')
  return keys.flatMap((jwk: JsonWebKey | null) => (jwk === null ? [] : (readKey(jwk) ?? [])))
}

function readKey(jwk: JsonWebKey): ExternalKey | null {
  const { kty, crv, n, e, x, y, kid, use, alg, key_ops: uses } = jwk
  const kind = kty === 'RSA' ? kty : `${kty} ${crv}`
  const algorithm = (Object.keys(KINDS) as Algorithm[]).find((name) => KINDS[name] === kind)
  const isForOther =
    (use !== undefined && use !== 'sig') ||
    (alg !== undefined && alg !== algorithm) ||
    (uses !== undefined && !(Array.isArray(uses) && uses.includes('verify')))
  if (algorithm === undefined || isForOther || typeof kid !== 'string' || kid === '') return null
  try {
    const parts = { RS256: { kty, n, e }, ES256: { kty, crv, x, y }, EdDSA: { kty, crv, x } }[algorithm]
    const key = createPublicKey({ format: 'jwk', key: parts as JsonWebKey })
    const isShort = algorithm === 'RS256' && (key.asymmetricKeyDetails?.modulusLength ?? 0) < MIN_RSA_BITS
    return isShort ? null : { id: kid, algorithm, key }
  } catch {
    return null
  }
}

/** Whether a key has signed a token, in the way the key is for. */
export function hasSigned({ algorithm, key }: ExternalKey, { header, signed, seal }: TokenParts): boolean {
  if (header['alg'] !== algorithm) return false
  if (algorithm === 'EdDSA') return verify(null, signed, key, seal)
  return verify('sha256', signed, { key, dsaEncoding: 'ieee-p1363' }, seal)
}
