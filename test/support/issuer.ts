import { createHmac, generateKeyPairSync, type JsonWebKey, type KeyObject, sign } from 'node:crypto'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Algorithm = 'RS256' | 'ES256' | 'EdDSA'

/** An issuer of tokens on this machine, with a key set (JWKS) that can be changed or made to fail. */
export class Issuer implements AsyncDisposable {
  readonly #http: Server
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
    this.#http = createServer((_, response) => void this.#respond(response))
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
    const issuer = new Issuer()
    await new Promise<void>((resolve) => issuer.#http.listen(0, '127.0.0.1', resolve))
    return issuer
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}/jwks.json`
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

  async [Symbol.asyncDispose](): Promise<void> {
    this.#http.closeAllConnections()
    await new Promise((resolve) => this.#http.close(resolve))
  }
}

/** Returns a function that signs as an attacker would, with a public key as the HMAC secret. */
export function hmacWithPublicKey(secret: string): (text: Buffer) => Buffer {
  return (text) => createHmac('sha256', secret).update(text).digest()
}
