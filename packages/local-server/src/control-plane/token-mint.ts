import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { DatabaseId } from '../backend.ts'

/** What a database token allows. */
export type TokenAccess = 'full-access' | 'read-only'

/** Makes database tokens: EdDSA-signed JWTs that name one database. */
export class TokenMint {
  readonly #key: KeyObject

  private constructor(key: KeyObject) {
    this.#key = key
  }

  /** Takes the key of a data directory, or makes one there: tokens stay good over a restart. */
  static async open(directory: string): Promise<TokenMint> {
    const path = join(directory, 'signing-key.pem')
    await mkdir(directory, { recursive: true })
    try {
      return new TokenMint(createPrivateKey(await readFile(path, 'utf8')))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    const { privateKey } = generateKeyPairSync('ed25519')
    await writeFile(path, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
    return new TokenMint(privateKey)
  }

  get publicKeyPem(): string {
    return createPublicKey(this.#key).export({ type: 'spki', format: 'pem' }).toString()
  }

  mint(database: DatabaseId, access: TokenAccess, expiresInSeconds: number | null): string {
    const issuedAt = Math.floor(Date.now() / 1_000)
    const claims = {
      a: access === 'read-only' ? 'ro' : 'rw',
      id: database,
      iat: issuedAt,
      ...(expiresInSeconds !== null && { exp: issuedAt + expiresInSeconds }),
    }
    const text = `${part({ alg: 'EdDSA', typ: 'JWT' })}.${part(claims)}`
    return `${text}.${sign(null, Buffer.from(text), this.#key).toString('base64url')}`
  }
}

function part(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
