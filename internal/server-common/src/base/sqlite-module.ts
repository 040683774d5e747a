import type * as SqliteModule from 'node:sqlite'

/**
 * Loads the runtime's SQLite, which uses SQLite's usual file locks; the embedded engine does not. Suppresses Node.js
 * 22's warning that the module is experimental. @throws Error if the runtime does not have it, for example Bun before 1.4
 */
export function loadSqliteModule(): typeof SqliteModule {
  const emitWarning = process.emitWarning.bind(process)
  process.emitWarning = () => {}
  try {
    return process.getBuiltinModule('node:sqlite')
  } catch (error) {
    throw new Error('this runtime has no node:sqlite, which the local server needs', { cause: error })
  } finally {
    process.emitWarning = emitWarning
  }
}
