import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { LocalServer } from '@batonsql/local-server'
import { databaseIdOf } from './group-key.ts'

type Claims = Readonly<Record<string, unknown>>

/** Creates the valid and invalid tokens of the recordings, for a server whose key is known. */
export class TokenForge {
  readonly #key: KeyObject
  readonly #otherKey: KeyObject = generateKeyPairSync('ed25519').privateKey
  /** The recordings use the names of databases; the server's tokens use their ids. */
  readonly #ids: ReadonlyMap<string, string>

  private constructor(key: KeyObject, ids: ReadonlyMap<string, string>) {
    this.#key = key
    this.#ids = ids
  }

  static async open(server: LocalServer, key: KeyObject): Promise<TokenForge> {
    const ids = new Map<string, string>()
    for (const name of server.databaseNames) ids.set(name, databaseIdOf(await server.createToken(name)))
    return new TokenForge(key, ids)
  }

  /** Returns the id of a database. */
  idOf(name: string): string {
    return this.#ids.get(name) ?? name
  }

  /** Creates a token. `_key` and `_alg` determine how it is signed; `{ now: n }` is n seconds from now. */
  forge({ _key: key, _alg: algorithm = 'EdDSA', ...claims }: Claims): string {
    const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
    const text = `${part({ alg: algorithm, typ: 'JWT' })}.${part(this.#resolve(claims))}`
    const bytes = Buffer.from(text)
    const signature =
      algorithm === 'HS256'
        ? createHmac('sha256', 'x').update(bytes).digest()
        : sign(null, bytes, key === 'other' ? this.#otherKey : this.#key)
    return `${text}.${signature.toString('base64url')}`
  }

  #resolve(value: unknown): unknown {
    if (typeof value === 'string') return this.#ids.get(value) ?? value
    if (Array.isArray(value)) return value.map((item) => this.#resolve(item))
    if (typeof value !== 'object' || value === null) return value
    if ('now' in value) return Math.floor(Date.now() / 1_000) + Number(value.now)
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, this.#resolve(item)]))
  }
}
