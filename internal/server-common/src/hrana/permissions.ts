import type { Permissions } from './pipeline-types.ts'

/** All permissions, as on a server without tokens. */
export const FULL_PERMISSIONS: Permissions = {
  read: true,
  write: true,
  changeSharedSchema: true,
  attach: 'all',
  tables: null,
  ignoresBlocks: false,
}

/** All permissions, even while the database is blocked. */
export const MIGRATION_PERMISSIONS: Permissions = { ...FULL_PERMISSIONS, ignoresBlocks: true }
