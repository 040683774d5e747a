import type * as SqliteModule from 'node:sqlite'

/**
 * Loads the SQLite of the runtime, which locks files like every SQLite, unlike the embedded engine. Suppresses the warning of
 * Node.js 22 that it is experimental. @throws Error if it does not exist, for example on Bun before 1.4
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
