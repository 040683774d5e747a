/** Actions on tables that a token can allow, as named in the claim `perm`. */
export const TABLE_ACTIONS = [
  'data_read',
  'data_add',
  'data_update',
  'data_delete',
  'schema_add',
  'schema_update',
  'schema_delete',
] as const

export type TableAction = (typeof TABLE_ACTIONS)[number]
