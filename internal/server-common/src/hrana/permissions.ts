import type { Permissions } from './pipeline-types.ts'

/** All permissions, as on a server without tokens. */
export const FULL_PERMISSIONS: Permissions = {
  write: true,
  changeSharedSchema: true,
  attach: 'all',
  tables: null,
  ignoresBlocks: false,
}

/** The permissions of migrations and of the server's own statements: all, even while the database is blocked. */
export const INTERNAL_PERMISSIONS: Permissions = { ...FULL_PERMISSIONS, ignoresBlocks: true }
