import { createPublicKey, type KeyObject } from 'node:crypto'
import type { DatabaseId } from '../backend/backend.ts'
import { FULL_PERMISSIONS } from '../hrana/permissions.ts'
import { PipelineFailure } from '../hrana/pipeline-failure.ts'
import type { Permissions, TablePermission } from '../hrana/pipeline-types.ts'
import { TABLE_ACTIONS, type TableAction } from '../hrana/table-actions.ts'
import type { ServiceRequest } from '../http/service-request.ts'
import { type Claims, decodeClaims, verifyToken } from './jwt.ts'

/** How long an expired token is still accepted, because the clock of its issuer may differ. */
const LEEWAY_SECONDS = 60

// The claims of a token. Their meaning is that of libsql-server, except for `perm`, which it ignores.
// - `exp`: when the token expires.
// - `id`: the database that it is for. Without it, the token is for every database of the keys.
// - `a`: its access, `rw` (the default), `ro`, or `roa`. A `roa` token reads, and may attach the databases that it is for: with an
//   `id`, only that one.
// - `p`: takes the place of `id` and `a`. Lists the databases of each level of access, as `{ rw: { ns: [id] } }`. The levels are `ro`,
//   `rw`, `roa` and `rwa`, whose databases may also be attached, and `ddl`, which includes `rw`. `rwa` and `ddl` may change a shared schema.
// - `perm`: allowed actions on tables. With it, no database may be attached, because its table names would also match tables of that one.

/** Permissions of a token with full access. Changing a shared schema requires a level that includes it. */
const FULL_ACCESS: Permissions = { ...FULL_PERMISSIONS, changeSharedSchema: false, attach: [] }
const READ_ACCESS: Permissions = { ...FULL_ACCESS, write: false }
/** Maximum number of verified tokens cached per database. */
const MAX_VERIFIED = 1_000

/** The keys of a database, and the claims of the tokens verified with them. */
interface Keys {
  readonly keys: readonly KeyObject[]
  readonly verified: Map<string, Claims>
}

const NO_KEYS: Keys = { keys: [], verified: new Map() }

/** Returns the attachable databases that the sender's address may access. */
export type ReachableDatabases = (
  from: DatabaseId,
  attach: Permissions['attach'],
  address: string | undefined,
) => Permissions['attach']

/** Determines the permissions of a request for a database. */
export class TokenCheck {
  readonly #isOpen: boolean
  readonly #filterReachable: ReachableDatabases
  readonly #keys = new Map<DatabaseId, Keys>()

  /**
   * @param isOpen whether every request has full access
   * @param filterReachable by default, a token may attach databases from every address
   */
  constructor(isOpen: boolean, filterReachable: ReachableDatabases = (_, attach) => attach) {
    this.#isOpen = isOpen
    this.#filterReachable = filterReachable
  }

  /** Sets the public keys (PEM) that verify tokens for a database. If every request has full access, they are not parsed (0.1 ms each). */
  configure(database: DatabaseId, keys: readonly string[]): void {
    if (this.#isOpen) return
    // also drops the tokens verified with the previous keys
    this.#keys.set(database, { keys: keys.map((pem) => createPublicKey(pem)), verified: new Map() })
  }

  forget(database: DatabaseId): void {
    this.#keys.delete(database)
  }

  /** Returns the permissions of a request. @throws PipelineFailure 401 for an invalid token, 404 for a token for another database */
  getPermissions(request: ServiceRequest, database: DatabaseId): Permissions {
    if (this.#isOpen) return FULL_PERMISSIONS
    const claims = this.#verifyClaims(getBearerToken(request), this.#keys.get(database) ?? NO_KEYS)
    const permissions = getClaimedPermissions(claims, database)
    // does not reveal that the database exists
    if (permissions === null) throw PipelineFailure.service(404, `Namespace \`${database}\` doesn't exist`)
    const { attach } = permissions
    if (attach !== 'all' && attach.length === 0) return permissions
    return { ...permissions, attach: this.#filterReachable(database, attach, request.remoteAddress) }
  }

  /** Returns the claims of a token. @throws PipelineFailure 401 in the words of libsql-server, if it is not valid */
  #verifyClaims(token: string, { keys, verified }: Keys): Claims {
    let claims = verified.get(token)
    if (claims === undefined) {
      claims = verifyToken(token, keys) ?? undefined
      if (claims === undefined || !hasValidTypes(claims)) throw unauthorizedError('The JWT is invalid')
      if (verified.size >= MAX_VERIFIED) verified.clear()
      verified.set(token, claims)
    }
    const expiry = claims['exp']
    if (typeof expiry === 'number' && expiry < Date.now() / 1_000 - LEEWAY_SECONDS) {
      throw unauthorizedError('The JWT has expired')
    }
    // libsql-server expects no audience
    if (claims['aud'] !== undefined) throw unauthorizedError('Authentication failed')
    return claims
  }
}

function unauthorizedError(text: string): PipelineFailure {
  return PipelineFailure.service(401, `Unauthorized: \`${text}\``)
}

/** Returns the token of a request, as libsql-server does. @throws PipelineFailure 401 in its words, if it is missing or malformed */
function getBearerToken({ headers }: Pick<ServiceRequest, 'headers'>): string {
  const value = headers['authorization'] ?? headers['x-authorization']
  const header = Array.isArray(value) ? value[0] : value
  if (header === undefined) throw unauthorizedError('Expected authorization header but none given')
  const space = header.indexOf(' ')
  if (space < 0) throw unauthorizedError("Auth string does not conform to '<scheme> <token>' form")
  if (header.slice(0, space).toLowerCase() !== 'bearer') {
    throw unauthorizedError('The authentication scheme in the `Authorization` HTTP header is not supported')
  }
  return header.slice(space + 1).trim()
}

/**
 * Returns the token of a request; null if there is none, or the header is malformed. For use before a back end checks the token, whose
 * error is in the words of libsql-server.
 */
export function findBearerToken({ headers }: Pick<ServiceRequest, 'headers'>): string | null {
  const value = headers['authorization'] ?? headers['x-authorization']
  return /^Bearer +(\S+)\s*$/i.exec(String(value ?? ''))?.[1] ?? null
}

/** Returns the database in the claims of a token, without verifying it; null if there is none. */
export function getClaimedDatabase(request: Pick<ServiceRequest, 'headers'>): string | null {
  const id = decodeClaims(findBearerToken(request) ?? '')?.['id']
  return typeof id === 'string' ? id : null
}

function hasValidTypes({ exp, id, a, p, perm }: Claims): boolean {
  return (
    (perm == null || (Array.isArray(perm) && perm.every(isTableClaim))) &&
    (exp == null || (Number.isInteger(exp) && Number(exp) >= 0)) &&
    (id == null || typeof id === 'string') &&
    (a == null || a === 'ro' || a === 'rw' || a === 'roa') &&
    (p == null || typeof p === 'object')
  )
}

/** Returns the permissions that a token grants; null if it is not for this database. */
function getClaimedPermissions({ id, a, p, perm }: Claims, database: DatabaseId): Permissions | null {
  const permissions =
    typeof p === 'object' && p !== null
      ? scopedPermissions(p as Claims, database)
      : legacyPermissions(id, a, database)
  // a token without table permissions has an empty list
  if (permissions === null || !Array.isArray(perm) || perm.length === 0) return permissions
  return { ...permissions, attach: [], tables: (perm as readonly TableClaim[]).map(tablePermission) }
}

/** Permissions for tables: `t` lists their names (null or empty for all tables), `a` the actions. */
interface TableClaim {
  readonly t?: readonly string[] | null
  readonly a: readonly TableAction[]
}

function tablePermission({ t, a }: TableClaim): TablePermission {
  return { tables: t == null || t.length === 0 ? null : t, actions: a }
}

function isTableClaim(claim: unknown): boolean {
  const { t, a } = (claim ?? {}) as { t?: unknown; a?: unknown }
  const isNames = t == null || (Array.isArray(t) && t.every((name) => typeof name === 'string'))
  const knownActions: readonly unknown[] = TABLE_ACTIONS
  return isNames && Array.isArray(a) && a.every((action) => knownActions.includes(action))
}

function legacyPermissions(id: unknown, a: unknown, database: DatabaseId): Permissions | null {
  if (typeof id === 'string' && id !== database) return null
  if (a === 'roa') return { ...READ_ACCESS, attach: typeof id === 'string' ? [id] : 'all' }
  return a === 'ro' ? READ_ACCESS : FULL_ACCESS
}

function scopedPermissions(permissions: Claims, database: DatabaseId): Permissions | null {
  const getNames = (level: string): readonly string[] => {
    const scope = permissions[level] as { ns?: unknown } | null | undefined
    return Array.isArray(scope?.ns) ? scope.ns.filter((name) => typeof name === 'string') : []
  }
  const covers = (level: string): boolean => getNames(level).includes(database)
  const attach = [...getNames('roa'), ...getNames('rwa')]
  if (['rw', 'rwa', 'ddl'].some(covers))
    return { ...FULL_ACCESS, attach, changeSharedSchema: ['rwa', 'ddl'].some(covers) }
  return ['ro', 'roa'].some(covers) ? { ...READ_ACCESS, attach } : null
}
