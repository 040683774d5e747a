/** Whether a PRAGMA is allowed, and the permission it needs. */
export type PragmaAccess = 'read' | 'write' | 'rejected'

const READ_PRAGMAS = splitWords(
  'table_list index_list table_info table_xinfo index_info index_xinfo pragma_list compile_options database_list ' +
    'function_list module_list encoding',
)
const WRITE_PRAGMAS = splitWords(
  'defer_foreign_keys foreign_keys foreign_key_list foreign_key_check collation_list data_version freelist_count ' +
    'integrity_check legacy_file_format page_count quick_check stats user_version',
)
const ARGUMENTLESS_WRITE_PRAGMAS = splitWords(
  'analysis_limit application_id auto_vacuum automatic_index busy_timeout cache_size cache_spill cell_size_check ' +
    'checkpoint_fullfsync fullfsync hard_heap_limit journal_mode journal_size_limit legacy_alter_table locking_mode ' +
    'max_page_count mmap_size page_size query_only read_uncommitted recursive_triggers reverse_unordered_selects ' +
    'secure_delete soft_heap_limit synchronous temp_store threads trusted_schema wal_autocheckpoint',
)

/** Returns the access that a pragma needs, according to the service's list. Pragmas that are not on the list are rejected. */
export function getPragmaAccess(name: string, hasArgument: boolean): PragmaAccess {
  const key = name.toLowerCase()
  if (READ_PRAGMAS.has(key)) return 'read'
  if (key === 'schema_version') return hasArgument ? 'rejected' : 'read'
  if (WRITE_PRAGMAS.has(key)) return 'write'
  return ARGUMENTLESS_WRITE_PRAGMAS.has(key) && !hasArgument ? 'write' : 'rejected'
}

function splitWords(list: string): ReadonlySet<string> {
  return new Set(list.split(' '))
}
