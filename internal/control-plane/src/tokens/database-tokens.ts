import { signToken } from '@batonsql/server-common/auth'
import type { DatabaseRow, GroupRow } from '../registry/rows.ts'

export type TokenAuthorization = 'full-access' | 'read-only'

/** Permissions for the named tables; null for all tables. */
interface TablePermission {
  readonly t: readonly string[] | null
  readonly a: readonly string[]
}

/** Permissions and lifetime of a token to create. */
export interface TokenRequest {
  readonly authorization: TokenAuthorization
  /** Null for a token that does not expire. */
  readonly expiresInSeconds: number | null
  /** Databases that may be attached for reading. */
  readonly attach: readonly DatabaseRow[]
  readonly tables: readonly TablePermission[]
}

/** Creates a token for one database, signed with the key of the database. */
export function mintDatabaseToken(database: DatabaseRow, request: TokenRequest): string {
  const claims =
    request.attach.length === 0 ? { a: getAccessLevel(request) } : buildAttachClaims([database], request)
  return signToken(database.key, { ...claims, id: database.id, ...buildCommonClaims(request) })
}

/**
 * Creates a token for all databases of a group, signed with the group's key. A token that permits ATTACH has to list the group's
 * databases; any other also covers databases that are created later.
 */
export function mintGroupToken(
  group: GroupRow,
  databases: readonly DatabaseRow[],
  request: TokenRequest,
): string {
  const plain = request.authorization === 'read-only' ? { a: 'ro' } : {}
  const claims = request.attach.length === 0 ? plain : buildAttachClaims(databases, request)
  return signToken(group.key, { ...claims, gid: group.id, ...buildCommonClaims(request) })
}

function getAccessLevel({ authorization }: TokenRequest): 'ro' | 'rw' {
  return authorization === 'read-only' ? 'ro' : 'rw'
}

/** Returns claims that list databases, in place of the claim for the access level. */
function buildAttachClaims(databases: readonly DatabaseRow[], request: TokenRequest): { readonly p: object } {
  const namespaces = (rows: readonly DatabaseRow[]): object => ({ ns: rows.map(({ id }) => id) })
  return { p: { [getAccessLevel(request)]: namespaces(databases), roa: namespaces(request.attach) } }
}

function buildCommonClaims({ expiresInSeconds, tables }: TokenRequest): { exp?: number; perm?: unknown } {
  return {
    ...(expiresInSeconds !== null && { exp: Math.floor(Date.now() / 1_000) + expiresInSeconds }),
    ...(tables.length > 0 && { perm: tables }),
  }
}
