import { type Claims, type KeyPair, mintToken } from '../../auth/jwt.ts'
import type { DatabaseId } from '../../backend/backend.ts'
import type { Permissions } from '../../hrana/pipeline-types.ts'

/** Long enough for a server whose clock differs. */
const LIFETIME_MS = 3_600_000
const MAX_KEPT = 10_000

/** What the sender of a request may do, as far as the server decides it. */
export type SenderRights = Pick<Permissions, 'write' | 'changeSharedSchema' | 'attach'>

/** The same, with every database named that may be attached. */
export interface OnwardRights extends SenderRights {
  readonly attach: readonly string[]
}

/** Of what the back end asks for itself. */
export const READ_RIGHTS: OnwardRights = { write: false, changeSharedSchema: false, attach: [] }
export const WRITE_RIGHTS: OnwardRights = { ...READ_RIGHTS, write: true }

interface Kept {
  readonly token: string
  readonly mintedAt: number
}

/**
 * Tokens of our own for requests that are passed on: clients' tokens are checked before, and worth nothing to the server.
 */
export class OnwardTokens {
  readonly #key: KeyPair
  readonly #kept = new Map<string, Kept>()

  constructor(key: KeyPair) {
    this.#key = key
  }

  /** A token for a database and these rights. */
  tokenFor(id: DatabaseId, rights: OnwardRights): string {
    const claims = claimsFor(id, rights)
    const name = JSON.stringify(claims)
    const now = Date.now()
    const kept = this.#kept.get(name)
    // the clock may have been set back meanwhile
    const isFresh = kept !== undefined && kept.mintedAt <= now && now < kept.mintedAt + LIFETIME_MS / 2
    if (isFresh) return kept.token
    if (this.#kept.size >= MAX_KEPT) this.#kept.clear()
    const exp = Math.ceil((now + LIFETIME_MS) / 1_000)
    const token = mintToken(this.#key, { ...claims, exp }, now)
    this.#kept.set(name, { token, mintedAt: now })
    return token
  }
}

function claimsFor(id: DatabaseId, { write, changeSharedSchema, attach }: OnwardRights): Claims {
  const level = write ? 'rw' : 'ro'
  // the right to change a shared schema is one to write
  const changes = write && changeSharedSchema
  if (attach.length === 0 && !changes) return { id, a: level }
  const permissions = {
    [level]: { ns: [id] },
    ...(changes && { ddl: { ns: [id] } }),
    ...(attach.length > 0 && { roa: { ns: attach } }),
  }
  return { p: permissions }
}
