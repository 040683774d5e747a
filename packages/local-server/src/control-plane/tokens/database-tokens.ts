import { mintToken } from '../../auth/jwt.ts'
import type { DatabaseRow, GroupRow } from '../registry/rows.ts'

/** What a token for databases allows. */
export type TokenAccess = 'full-access' | 'read-only'

/** Permissions for some tables, or all of them where there are none named. */
interface TablePermission {
  readonly t: readonly string[] | null
  readonly a: readonly string[]
}

/** What a new token is to be good for. */
export interface TokenWish {
  readonly access: TokenAccess
  /** Null for ever. */
  readonly expiresInSeconds: number | null
  /** Databases that may be attached and read. */
  readonly attach: readonly DatabaseRow[]
  readonly tables: readonly TablePermission[]
}

/** A token for one database: signed with its own key. */
export function mintDatabaseToken(database: DatabaseRow, wish: TokenWish): string {
  const claims = wish.attach.length === 0 ? { a: levelOf(wish) } : attachClaims([database], wish)
  return mintToken(database.key, { ...claims, id: database.id, ...commonClaims(wish) })
}

/**
 * A token for all databases of a group, signed with the group's key. Those made later are included, unless it names
 * databases to attach: then every database has to be named.
 */
export function mintGroupToken(group: GroupRow, databases: readonly DatabaseRow[], wish: TokenWish): string {
  const plain = wish.access === 'read-only' ? { a: 'ro' } : {}
  const claims = wish.attach.length === 0 ? plain : attachClaims(databases, wish)
  return mintToken(group.key, { ...claims, gid: group.id, ...commonClaims(wish) })
}

function levelOf({ access }: TokenWish): 'ro' | 'rw' {
  return access === 'read-only' ? 'ro' : 'rw'
}

/** Where permissions name databases, the coarse claims are not read. */
function attachClaims(databases: readonly DatabaseRow[], wish: TokenWish): { readonly p: object } {
  const named = (rows: readonly DatabaseRow[]): object => ({ ns: rows.map(({ id }) => id) })
  return { p: { [levelOf(wish)]: named(databases), roa: named(wish.attach) } }
}

function commonClaims({ expiresInSeconds, tables }: TokenWish): { exp?: number; perm?: unknown } {
  return {
    ...(expiresInSeconds !== null && { exp: Math.floor(Date.now() / 1_000) + expiresInSeconds }),
    ...(tables.length > 0 && { perm: tables }),
  }
}
