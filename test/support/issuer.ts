import { createHmac, generateKeyPairSync, type JsonWebKey, type KeyObject, sign } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { TestHttpServer } from './test-http-server.ts'

export type Algorithm = 'RS256' | 'ES256' | 'EdDSA'

/** An issuer of tokens on this machine, with a key set (JWKS) that can be changed or made to fail. */
export class Issuer extends TestHttpServer {
  /** The keys of the key set. */
  readonly keys = new Map<string, JsonWebKey>()
  readonly #privateKeys = new Map<string, { readonly algorithm: Algorithm; readonly key: KeyObject }>()
  /** The response that replaces the key set, if any. */
  customResponse: { readonly status: number; readonly body: string; readonly location?: string } | null = null
  /** Number of requests for the key set. */
  requestCount = 0
  /** The response waits for this promise. */
  responseGate: Promise<unknown> | null = null

  private constructor() {
    super()
    this.http.on('request', (_, response) => void this.#respond(response))
  }

  async #respond(response: ServerResponse): Promise<void> {
    this.requestCount += 1
    await this.responseGate
    const { status, body, location } = this.customResponse ?? {
      status: 200,
      body: JSON.stringify({ keys: [...this.keys.values()] }),
    }
    response.writeHead(status, location === undefined ? {} : { location }).end(body)
  }

  static async start(): Promise<Issuer> {
    return await new Issuer().listen()
  }

  override get url(): string {
    return `${super.url}/jwks.json`
  }

  /** Creates a key, and adds its public half to the key set. */
  add(kid: string, algorithm: Algorithm, extraFields: object = {}, rsaBits = 2_048): JsonWebKey {
    const { publicKey, privateKey } =
      algorithm === 'RS256'
        ? generateKeyPairSync('rsa', { modulusLength: rsaBits })
        : algorithm === 'ES256'
          ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
          : generateKeyPairSync('ed25519')
    const jwk = { ...publicKey.export({ format: 'jwk' }), kid, ...extraFields }
    this.keys.set(kid, jwk)
    this.#privateKeys.set(kid, { algorithm, key: privateKey })
    return jwk
  }

  /** Creates a token. `header` and `customSign` can make it invalid. Claims passed as text are encoded unchanged. */
  token(
    kid: string,
    claims: object | string,
    header: object = {},
    customSign?: (text: Buffer) => Buffer,
  ): string {
    const privateEntry = this.#privateKeys.get(kid)
    if (privateEntry === undefined) throw new Error(`key ${kid} not found`)
    const { algorithm, key } = privateEntry
    const encodePart = (value: object | string): string =>
      Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
    const text = `${encodePart({ alg: algorithm, typ: 'JWT', kid, ...header })}.${encodePart(claims)}`
    const bytes = Buffer.from(text)
    const signature =
      customSign?.(bytes) ??
      sign(algorithm === 'EdDSA' ? null : 'sha256', bytes, { key, dsaEncoding: 'ieee-p1363' })
    return `${text}.${signature.toString('base64url')}`
  }
}

/** Returns a function that signs as an attacker would, with a public key as the HMAC secret. */
export function hmacWithPublicKey(secret: string): (text: Buffer) => Buffer {
  return (text) => createHmac('sha256', secret).update(text).digest()
}
