import { randomUUID } from 'node:crypto'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BackendRefusal } from '../backend/backend.ts'
import { copyDatabaseFile } from '../backend/copy-database-file.ts'
import { sqliteModule } from '../base/sqlite-module.ts'

/** All pages in one step, and so of one state; in several a writer between them would make it begin again. */
const ALL_PAGES = 0x7f_ff_ff_ff
const BUSY_MS = 5_000
/** The size of a page in libsql-server: a database with another one ends it. */
const PAGE_BYTES = 4_096

/**
 * Copies a database that the server has open, as it is at one moment, to a new file. Writers go on. Never overwrites a file.
 */
export async function copyOpenDatabase(from: string, to: string): Promise<void> {
  // the last writer to close a file moves its log into it, which is the server's business
  await copyPages(from, to, true)
}

/**
 * Makes the file of a new database out of a file of any program, with what is in the log or the journal beside it.
 * @throws BackendRefusal for a file that libsql-server does not open
 */
export async function importFile(from: string, to: string, temporaryFolder: string): Promise<void> {
  const folder = join(temporaryFolder, randomUUID())
  const staged = join(folder, 'data')
  await mkdir(folder, { recursive: true })
  try {
    await copyDatabaseFile(from, staged)
    // opened to be written, so that a journal is rolled back
    await copyPages(staged, to, false)
    await checkPageSize(from, to)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function checkPageSize(name: string, path: string): Promise<void> {
  const file = await open(path)
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(2), 0, 2, 16)
    const size = bytesRead < 2 ? PAGE_BYTES : buffer.readUInt16BE()
    if (size !== PAGE_BYTES)
      throw new BackendRefusal(
        `${name} has pages of ${size === 1 ? 65_536 : size} bytes, and libsql-server opens those of ${PAGE_BYTES}: ` +
          `run PRAGMA page_size = ${PAGE_BYTES} and VACUUM on a copy of it, not in journal mode WAL`,
      )
  } finally {
    await file.close()
  }
}

async function copyPages(from: string, to: string, readOnly: boolean): Promise<void> {
  await createFile(to)
  const { DatabaseSync, backup } = sqliteModule()
  try {
    const database = new DatabaseSync(from, { readOnly, timeout: BUSY_MS })
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
