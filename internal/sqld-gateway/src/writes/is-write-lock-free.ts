import { existsSync } from 'node:fs'
import { loadSqliteModule } from '@batonsql/server-common/base'

const SQLITE_BUSY = 5

/**
 * Whether the write lock of a database is free according to its files: a server that executes a write holds it; one that has stopped
 * executing the writes in its queue (see `StallDetector`) does not. Null if this cannot be determined.
 */
export function isWriteLockFree(file: string): boolean | null {
  // a missing file would be created
  if (!existsSync(file)) return null
  try {
    const database = new (loadSqliteModule().DatabaseSync)(file)
    try {
      database.exec('BEGIN IMMEDIATE; ROLLBACK')
      return true
    } catch (error) {
      return (error as { errcode?: number }).errcode === SQLITE_BUSY ? false : null
    } finally {
      database.close()
    }
  } catch {
    return null
  }
}
