import { open, rm } from 'node:fs/promises'
import { sqliteModule } from '../base/sqlite-module.ts'

/** All pages in one step, and so of one state; in several a writer between them would make it begin again. */
const ALL_PAGES = 0x7f_ff_ff_ff
const BUSY_MS = 5_000

/**
 * Copies a database that the server has open, as it is at one moment, to a new file. Writers go on. Never overwrites a file.
 */
export async function copyOpenDatabase(from: string, to: string): Promise<void> {
  await createFile(to)
  const { DatabaseSync, backup } = sqliteModule()
  try {
    // the last writer to close a file moves its log into it, which is the server's business
    const database = new DatabaseSync(from, { readOnly: true, timeout: BUSY_MS })
    try {
      await backup(database, to, { rate: ALL_PAGES })
    } finally {
      database.close()
    }
  } catch (error) {
    await rm(to, { force: true })
    throw error
  }
}

async function createFile(path: string): Promise<void> {
  try {
    await (await open(path, 'wx')).close()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new Error(`${path} exists already, and is not overwritten`, { cause: error })
  }
}
