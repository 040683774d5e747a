import { createPrivateKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'

/** An Ed25519 key pair, both halves as PEM. */
export interface KeyPair {
  readonly privatePem: string
  readonly publicPem: string
}

export type Claims = Readonly<Record<string, unknown>>

const ENCODED_HEADER = encodePart({ alg: 'EdDSA', typ: 'JWT' })
/** Parsed keys, cached because parsing a PEM takes longer than signing. */
const privateKeys = new WeakMap<KeyPair, KeyObject>()

export function newKeyPair(): KeyPair {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return {
    privatePem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  }
}

/** Signs a token (JWT, EdDSA) with the claims and the time of issue, `iat`. The claim `exp` is in seconds since the Unix epoch. */
export function signToken(key: KeyPair, claims: Claims, issuedAtMs = Date.now()): string {
  const text = `${ENCODED_HEADER}.${encodePart({ ...claims, iat: Math.floor(issuedAtMs / 1_000) })}`
  const privateKey = privateKeys.get(key) ?? createPrivateKey(key.privatePem)
  privateKeys.set(key, privateKey)
  return `${text}.${sign(null, Buffer.from(text), privateKey).toString('base64url')}`
}

/** Returns the claims of a token signed with one of the Ed25519 keys; null for any other text. Times are not validated. */
export function verifyToken(token: string, keys: readonly KeyObject[]): Claims | null {
  const [head, body, encodedSignature] = splitToken(token)
  const claims = decodePart(body)
  const signature = decodeBase64Url(encodedSignature)
  if (claims === null || signature === null) return null
  if (decodePart(head)?.['alg'] !== 'EdDSA') return null
  const signedText = Buffer.from(`${head}.${body}`)
  const isSignedWith = (key: KeyObject): boolean =>
    key.asymmetricKeyType === 'ed25519' && verify(null, signedText, key, signature)
  return keys.some(isSignedWith) ? claims : null
}

/** Returns the claims of a token without verifying its signature; null for any other text. */
export function decodeClaims(token: string): Claims | null {
  return decodePart(splitToken(token)[1])
}

/** Returns the header of a token without verifying its signature; null for any other text. */
export function decodeHeader(token: string): Claims | null {
  return decodePart(splitToken(token)[0])
}

/** Returns the header, the claims and the signature of a token, all encoded; an empty array for any other text. */
function splitToken(token: string): readonly string[] {
  const parts = token.split('.')
  return parts.length === 3 ? parts : []
}

function encodePart(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url')
}

function decodePart(part: string | undefined): Claims | null {
  try {
    const value: unknown = JSON.parse(decodeBase64Url(part)?.toString('utf8') ?? '')
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Claims) : null
  } catch {
    return null
  }
}

/** Decodes only canonical base64url; Buffer skips invalid characters. */
function decodeBase64Url(text: string | undefined): Buffer | null {
  const bytes = Buffer.from(text ?? '', 'base64url')
  return bytes.toString('base64url') === text ? bytes : null
}
