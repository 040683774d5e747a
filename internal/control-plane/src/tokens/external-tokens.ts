import { type Claims, decodeHeader, findBearerToken, KeySets, signToken } from '@batonsql/server-common/auth'
import type { ServiceRequest } from '@batonsql/server-common/http'
import type { errors, JWTPayload } from 'jose'
import { ApiError } from '../api-error.ts'
import type { Registry } from '../registry/registry.ts'
import type { DatabaseRow, KeySetRow } from '../registry/rows.ts'

/**
 * Exchanges valid tokens of issuers whose key sets an organization has registered for tokens signed with the database's own key,
 * with the same permissions and expiry, because back ends do not support issuers.
 */
export class ExternalTokens {
  readonly #registry: Registry
  readonly #sets = new KeySets()

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** Removes a key set from the cache, so that it is fetched again when it is needed. */
  forget(url: string): void {
    this.#sets.forget(url)
  }

  /**
   * Replaces an issuer's token with one signed with the database's own key. Returns null for a request with any other token, or
   * without one.
   * @param hasTablePermissions whether the back end enforces permissions for tables
   * @throws ApiError 401 for an invalid token, 404 for a token for another database
   */
  exchange(
    row: DatabaseRow,
    request: ServiceRequest,
    hasTablePermissions: boolean,
  ): Promise<ServiceRequest> | null {
    const sets = this.#registry.keySets.rows.filter(({ organization }) => organization === row.organization)
    const token = sets.length === 0 ? null : findBearerToken(request)
    // our own tokens have no key id
    if (token === null || decodeHeader(token)?.['kid'] === undefined) return null
    return this.#exchange(row, request, sets, token, hasTablePermissions)
  }

  // oxlint-disable-next-line max-params
  async #exchange(
    row: DatabaseRow,
    request: ServiceRequest,
    sets: readonly KeySetRow[],
    token: string,
    hasTablePermissions: boolean,
  ): Promise<ServiceRequest> {
    const urls = sets.map(({ url }) => url)
    const claims = await this.#sets.verify(urls, token).catch((error: unknown) => {
      throw unauthorized(describeInvalid(error))
    })
    // a set may have been removed while keys were fetched or the signature was verified
    const areUnchanged = sets.every(({ id, url }) => this.#registry.keySets.get(id)?.url === url)
    if (claims === null || !areUnchanged) throw unauthorized('The JWT is invalid')
    const newClaims = pickPermittedClaims(claims, row)
    const isPlain = Array.isArray(newClaims['perm'])
      ? newClaims['perm'].length === 0
      : newClaims['perm'] == null
    if (!isPlain && !hasTablePermissions) throw unauthorized('The JWT is invalid')
    const databaseToken = signToken(row.key, newClaims)
    return { ...request, headers: { ...request.headers, authorization: `Bearer ${databaseToken}` } }
  }
}

function describeInvalid(error: unknown): string {
  const { code, claim } = error as Partial<errors.JWTClaimValidationFailed>
  if (code === 'ERR_JWT_EXPIRED') return 'The JWT has expired'
  const isEarly = code === 'ERR_JWT_CLAIM_VALIDATION_FAILED' && claim === 'nbf'
  return isEarly ? 'The JWT is not valid yet' : 'The JWT is invalid'
}

/** Returns the claims for the database. Permissions must be explicit: an issuer also signs tokens for other purposes. */
function pickPermittedClaims({ id, gid, a, exp, aud, p, perm }: JWTPayload, row: DatabaseRow): Claims {
  // `1e999` is valid JSON, and parsed as Infinity
  if (!Number.isFinite(exp)) throw unauthorized('The JWT is invalid')
  // meant for another service
  if (aud !== undefined) throw unauthorized('Authentication failed')
  if ((a !== 'ro' && a !== 'rw') || p !== undefined) throw unauthorized('The JWT is invalid')
  const isForThisDatabase =
    (id ?? gid) !== undefined && (id ?? row.id) === row.id && (gid ?? row.group) === row.group
  if (!isForThisDatabase) throw new ApiError(404, `Namespace \`${row.name}\` doesn't exist`)
  return { id: row.id, a, exp: Math.floor(Number(exp)), ...(perm !== undefined && { perm }) }
}

function unauthorized(reason: string): ApiError {
  return new ApiError(401, `Unauthorized: \`${reason}\``)
}
