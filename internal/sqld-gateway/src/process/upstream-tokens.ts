import { type Claims, type KeyPair, signToken } from '@batonsql/server-common/auth'
import type { DatabaseId } from '@batonsql/server-common/backend'
import type { Permissions } from '@batonsql/server-common/hrana'

/** Long enough to tolerate clock skew. */
const LIFETIME_MS = 3_600_000
const MAX_CACHED = 10_000

/** Permissions of a sender that the server enforces. */
export type SenderPermissions = Pick<Permissions, 'write' | 'changeSharedSchema' | 'attach'>

/** The same permissions, with the attachable databases listed by id. */
export interface UpstreamPermissions extends SenderPermissions {
  readonly attach: readonly string[]
}

export const READ_PERMISSIONS: UpstreamPermissions = { write: false, changeSharedSchema: false, attach: [] }
export const WRITE_PERMISSIONS: UpstreamPermissions = { ...READ_PERMISSIONS, write: true }

/** Headers that name a database and, if the server requires a token, grant access to it. */
export type DatabaseHeaders = Readonly<Record<string, string>>

interface CachedHeaders {
  readonly headers: DatabaseHeaders
  readonly mintedAt: number
}

/**
 * Issues tokens for requests to the server. Client tokens are verified by the gateway, and are not valid on the server.
 */
export class UpstreamTokens {
  readonly #key: KeyPair
  readonly #cache = new Map<string, CachedHeaders>()

  constructor(key: KeyPair) {
    this.#key = key
  }

  /** Returns headers with a token that grants these permissions for a database. */
  getHeaders(id: DatabaseId, permissions: UpstreamPermissions): DatabaseHeaders {
    const claims = buildClaims(id, permissions)
    const cacheKey = JSON.stringify(claims)
    const now = Date.now()
    const cached = this.#cache.get(cacheKey)
    // the clock may have been set back
    const isFresh = cached !== undefined && cached.mintedAt <= now && now < cached.mintedAt + LIFETIME_MS / 2
    if (isFresh) return cached.headers
    if (this.#cache.size >= MAX_CACHED) this.#cache.clear()
    const exp = Math.ceil((now + LIFETIME_MS) / 1_000)
    const authorization = `Bearer ${signToken(this.#key, { ...claims, exp }, now)}`
    const headers = { ...buildNamespaceHeader(id), authorization }
    this.#cache.set(cacheKey, { headers, mintedAt: now })
    return headers
  }
}

/** Returns the header that names a database, for a server that requires no token. */
export function buildNamespaceHeader(id: DatabaseId): DatabaseHeaders {
  return { 'x-namespace-bin': Buffer.from(id).toString('base64').replace(/=+$/, '') }
}

function buildClaims(id: DatabaseId, { write, changeSharedSchema, attach }: UpstreamPermissions): Claims {
  const level = write ? 'rw' : 'ro'
  // changing a shared schema requires write permission
  const changesSchema = write && changeSharedSchema
  if (attach.length === 0 && !changesSchema) return { id, a: level }
  const permissions = {
    [level]: { ns: [id] },
    ...(changesSchema && { ddl: { ns: [id] } }),
    ...(attach.length > 0 && { roa: { ns: attach } }),
  }
  return { p: permissions }
}
