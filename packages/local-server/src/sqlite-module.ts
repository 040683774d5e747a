import type * as SqliteModule from 'node:sqlite'

let loaded: typeof SqliteModule | null = null

/**
 * The SQLite of node, without its warning that it is new. It locks files as every SQLite does, which the embedded engine does
 * not.
 */
export function sqliteModule(): typeof SqliteModule {
  if (loaded !== null) return loaded
  const emitWarning = process.emitWarning.bind(process)
  process.emitWarning = () => {}
  try {
    loaded = process.getBuiltinModule('node:sqlite')
    return loaded
  } finally {
    process.emitWarning = emitWarning
  }
}
