import { createPrivateKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'

/** An Ed25519 key pair, both halves as PEM. */
export interface KeyPair {
  readonly privatePem: string
  readonly publicPem: string
}

/** What a token says. */
export type Claims = Readonly<Record<string, unknown>>

const HEADER = encodePart({ alg: 'EdDSA', typ: 'JWT' })
const privateKeys = new WeakMap<KeyPair, KeyObject>()

/** A fresh Ed25519 key pair. */
export function newKeyPair(): KeyPair {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return {
    privatePem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicPem: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  }
}

/** Makes a signed token (JWT, EdDSA). `exp` is in seconds since 1970. */
export function mintToken(key: KeyPair, claims: Claims, issuedAtMs = Date.now()): string {
  const text = `${HEADER}.${encodePart({ ...claims, iat: Math.floor(issuedAtMs / 1_000) })}`
  const privateKey = privateKeys.get(key) ?? createPrivateKey(key.privatePem)
  privateKeys.set(key, privateKey)
  return `${text}.${sign(null, Buffer.from(text), privateKey).toString('base64url')}`
}

/** The claims of a token that one of the keys has signed; null for any other text. Times are not looked at. */
export function readToken(token: string, keys: readonly KeyObject[]): Claims | null {
  const parts = partsOf(token)
  if (parts?.header['alg'] !== 'EdDSA') return null
  const { claims, signed, seal } = parts
  return keys.some((key) => verify(null, signed, key, seal)) ? claims : null
}

/** A token taken apart; its signature is not checked. */
export interface TokenParts {
  readonly header: Claims
  readonly claims: Claims
  /** What the signature is of. */
  readonly signed: Buffer
  readonly seal: Buffer
}

/** Null for a text that is no token. */
export function partsOf(token: string): TokenParts | null {
  const [head, body, signature, ...rest] = token.split('.')
  const header = decodePart(head)
  const claims = decodePart(body)
  if (rest.length > 0 || claims === null || header === null) return null
  const seal = decodeBase64Url(signature) ?? Buffer.of()
  return { header, claims, signed: Buffer.from(`${head}.${body}`), seal }
}

/** What a token says; its signature is not checked. */
export function claimsOf(token: string): Claims | null {
  return decodePart(token.split('.')[1])
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

/** Buffer skips what it does not know: only text that comes back the same was right. */
function decodeBase64Url(text: string | undefined): Buffer | null {
  const bytes = Buffer.from(text ?? '', 'base64url')
  return bytes.toString('base64url') === text ? bytes : null
}
