import type { Permissions } from './pipeline-types.ts'

/** Everything, as for a server without tokens. */
export const OWNER: Permissions = {
  read: true,
  write: true,
  changeSharedSchema: true,
  attach: 'all',
  tables: null,
  ignoresBlocks: false,
}

/** Everything, also while the database is blocked for everybody else. */
export const MIGRATION: Permissions = { ...OWNER, ignoresBlocks: true }
