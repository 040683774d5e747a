import { hasSigned } from '../../auth/external-key.ts'
import { type Claims, mintToken, partsOf, type TokenParts } from '../../auth/jwt.ts'
import { KeySets } from '../../auth/key-sets.ts'
import { claimedToken } from '../../auth/token-check.ts'
import type { ServiceRequest } from '../../http/service-request.ts'
import { Refusal } from '../refusal.ts'
import type { Registry } from '../registry/registry.ts'
import type { DatabaseRow } from '../registry/rows.ts'

const LEEWAY_SECONDS = 60

/**
 * Tokens of issuers that an organization has named by their key sets. One that is in order is exchanged for a token of the
 * database's own key, with the same rights and the same end: what comes behind knows no issuers.
 */
export class ExternalTokens {
  readonly #registry: Registry
  readonly #sets = new KeySets()

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** Has a key set fetched anew, should it be needed again. */
  forget(url: string): void {
    this.#sets.forget(url)
  }

  /**
   * The request with a token of the database's own, where it has one of an issuer; others are left as they are.
   * @param hasTablePermissions whether the back end would heed them
   * @throws Refusal 401 for a token that is not in order, 404 for one of another database
   */
  async exchange(
    row: DatabaseRow,
    request: ServiceRequest,
    hasTablePermissions: boolean,
  ): Promise<ServiceRequest> {
    const sets = this.#registry.keySets.rows.filter(({ organization }) => organization === row.organization)
    const parts = sets.length === 0 ? null : partsOf(claimedToken(request) ?? '')
    const id = parts?.header['kid']
    // tokens of our own do not name their key
    if (parts === null || id === undefined) return request
    if (typeof id !== 'string' || parts.header['crit'] !== undefined) throw unauthorized('The JWT is invalid')
    const isGood = await this.#sets.have(
      sets.map(({ url }) => url),
      (key) => key.id === id && hasSigned(key, parts),
    )
    // one may have been removed while keys were fetched
    const areSame = sets.every(({ id: set, url }) => this.#registry.keySets.get(set)?.url === url)
    if (!isGood || !areSame) throw unauthorized('The JWT is invalid')
    const rights = rightsFrom(parts, row)
    const isPlain = Array.isArray(rights['perm']) ? rights['perm'].length === 0 : rights['perm'] == null
    if (!isPlain && !hasTablePermissions) throw unauthorized('The JWT is invalid')
    const token = mintToken(row.key, rights)
    return { ...request, headers: { ...request.headers, authorization: `Bearer ${token}` } }
  }
}

/**
 * What a token of an issuer allows. It has to say it: an issuer has signed many tokens that are not about databases.
 */
function rightsFrom({ claims }: TokenParts, row: DatabaseRow): Claims {
  const { id, gid, a, exp, nbf, aud, p, perm } = claims
  const now = Date.now() / 1_000
  // a number too large to be written down is none
  if (!Number.isFinite(exp)) throw unauthorized('The JWT is invalid')
  if (Number(exp) < now - LEEWAY_SECONDS) throw unauthorized('The JWT has expired')
  if (nbf !== undefined && !(typeof nbf === 'number' && nbf <= now + LEEWAY_SECONDS))
    throw unauthorized('The JWT is not valid yet')
  // meant for another service
  if (aud !== undefined) throw unauthorized('Authentication failed')
  if ((a !== 'ro' && a !== 'rw') || p !== undefined) throw unauthorized('The JWT is invalid')
  const isForThis = (id ?? gid) !== undefined && (id ?? row.id) === row.id && (gid ?? row.group) === row.group
  if (!isForThis) throw new Refusal(404, `Namespace \`${row.name}\` doesn't exist`)
  return { id: row.id, a, exp: Math.floor(Number(exp)), ...(perm !== undefined && { perm }) }
}

function unauthorized(reason: string): Refusal {
  return new Refusal(401, `Unauthorized: \`${reason}\``)
}
