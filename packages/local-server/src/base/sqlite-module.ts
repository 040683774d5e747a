import type * as SqliteModule from 'node:sqlite'

/**
 * The SQLite of the runtime, which locks files as every SQLite does; the embedded engine does not. Without the warning of
 * node 22 that it is new. @throws Error where there is none, on Bun before 1.4 for instance
 */
export function sqliteModule(): typeof SqliteModule {
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
