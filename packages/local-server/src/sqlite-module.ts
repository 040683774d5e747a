/** What `node:sqlite` has. */
type SqliteModule = typeof import('node:sqlite')

/** The SQLite of node, without its warning that it is new. It locks files as every SQLite does, which the embedded engine does not. */
export function sqliteModule(): SqliteModule {
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return process.getBuiltinModule('node:sqlite')
  } finally {
    process.emitWarning = emitWarning
  }
}
