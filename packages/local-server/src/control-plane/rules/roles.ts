import type { Role } from '../registry/rows.ts'

const RANKS: readonly Role[] = ['viewer', 'member', 'admin', 'owner']

/** Whether a role may do what another one may. */
export function isAtLeast(role: Role, needed: Role): boolean {
  return RANKS.indexOf(role) >= RANKS.indexOf(needed)
}
