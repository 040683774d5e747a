import { setTimeout } from 'node:timers/promises'
import { loadSqliteModule } from '@batonsql/server-common/base'

const POLL_MS = 20
const SQLITE_BUSY = 5

/**
 * Runs `work` while no other process or thread does so with the same file, which is created if necessary. The lock is one of
 * SQLite's, which the operating system releases when a process ends.
 */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const file = new (loadSqliteModule().DatabaseSync)(path, { timeout: 0 })
  try {
    while (!tryLock((sql) => file.exec(sql))) await setTimeout(POLL_MS)
    return await work()
  } finally {
    file.close()
  }
}

function tryLock(execute: (sql: string) => void): boolean {
  try {
    execute('BEGIN EXCLUSIVE')
    return true
  } catch (error) {
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw error
    return false
  }
}
