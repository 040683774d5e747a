import type * as SqliteModule from 'node:sqlite'

/**
 * The SQLite of node, which locks files as every SQLite does; the embedded engine does not. Undefined where there is none, on
 * Bun for instance. Without the warning of node 22 that it is new.
 */
export function sqliteModule(): typeof SqliteModule | undefined {
  const emitWarning = process.emitWarning.bind(process)
  process.emitWarning = () => {}
  try {
    return process.getBuiltinModule?.('node:sqlite')
  } catch {
    return undefined
  } finally {
    process.emitWarning = emitWarning
  }
}
