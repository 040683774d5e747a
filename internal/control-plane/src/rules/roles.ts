import type { Role } from '../registry/rows.ts'

/** The roles, lowest first. */
const RANKS: readonly Role[] = ['viewer', 'member', 'admin', 'owner']

/** Whether a role includes the permissions of another. */
export function isAtLeast(role: Role, minimum: Role): boolean {
  return RANKS.indexOf(role) >= RANKS.indexOf(minimum)
}

export function isRole(text: string): text is Role {
  return (RANKS as readonly string[]).includes(text)
}
