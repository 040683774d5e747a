import { createPublicKey, type KeyObject, randomBytes } from 'node:crypto'
import { decodeClaims, type KeyPair, signToken, verifyToken } from '@batonsql/server-common/auth'
import { ApiError } from '../api-error.ts'
import type { Registry } from '../registry/registry.ts'
import type { ApiTokenRow, UserRow } from '../registry/rows.ts'

export type NewApiToken = Pick<ApiTokenRow, 'name' | 'organization' | 'group' | 'scopes'>

export interface Caller {
  readonly user: UserRow
  readonly token: ApiTokenRow
}

/** Manages API tokens: JWTs that refer to an entry of the registry and are invalid without it. */
export class ApiTokens {
  readonly #registry: Registry
  readonly #key: KeyPair
  readonly #publicKey: KeyObject

  constructor(registry: Registry, key: KeyPair) {
    this.#registry = registry
    this.#key = key
    this.#publicKey = createPublicKey(key.publicPem)
  }

  /** Returns the row of a new token, which the caller stores. @throws ApiError if the user already has one with that name */
  createRow(user: UserRow, options: NewApiToken): ApiTokenRow {
    if (this.#registry.findToken(user.id, options.name) !== undefined)
      throw new ApiError(409, `an API token with name ${options.name} already exists`)
    return { id: newTokenId(), user: user.id, createdAt: Date.now(), ...options }
  }

  /** Returns the secret of a token, which is derived from its row. */
  getSecret({ id, organization, createdAt }: ApiTokenRow): string {
    const claims = { jti: id, ...(organization !== null && { org_id: organization }) }
    return signToken(this.#key, claims, createdAt)
  }

  /** Authenticates a request. @throws ApiError 401 unless the token is valid */
  authenticate(authorization: string | undefined): Caller {
    const token = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1]
    if (token === undefined) throw new ApiError(401, 'missing or invalid authorization header')
    const id = this.#readId(token)
    const row = this.#registry.apiTokens.get(id)
    const user = row === undefined ? undefined : this.#registry.users.get(row.user)
    if (row === undefined || user === undefined) throw new ApiError(401, 'the token has been revoked')
    return { user, token: row }
  }

  #readId(token: string): string {
    if (token.split('.').length !== 3) throw new ApiError(401, 'token contains an invalid number of segments')
    const id = verifyToken(token, [this.#publicKey])?.['jti']
    if (typeof id === 'string') return id
    // a database token, which another key has signed, gets the service's own message
    throw new ApiError(401, hasDatabaseClaims(token) ? 'could not parse jwt id' : 'the token is invalid')
  }
}

/** Whether a token has the claims of a database token, without verifying it. */
function hasDatabaseClaims(token: string): boolean {
  const claims = decodeClaims(token) ?? {}
  return !('jti' in claims) && ['a', 'id', 'gid', 'p'].some((name) => name in claims)
}

/** Generates the id of an API token: 16 random bytes as 22 characters. */
function newTokenId(): string {
  return randomBytes(16).toString('base64url')
}
