import { existsSync } from 'node:fs'
import { sqliteModule } from '../../base/sqlite-module.ts'

const SQLITE_BUSY = 5

/**
 * Whether the write lock of a database is free, as its files say: a server that runs a write holds it, one that has forgotten
 * its writers does not. Null where this process cannot open the file.
 */
export function isWriteLockFree(file: string): boolean | null {
  // what is not there would be made
  if (!existsSync(file)) return null
  try {
    const database = new (sqliteModule().DatabaseSync)(file)
    try {
      database.exec('PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; ROLLBACK')
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
