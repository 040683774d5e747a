import { randomUUID } from 'node:crypto'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { BackendError, copyDatabaseFile } from '@batonsql/server-common/backend'
import { loadSqliteModule } from '@batonsql/server-common/base'

/** Copies all pages in one step: with several steps, a write between them would restart the copy. */
const ALL_PAGES = 0x7f_ff_ff_ff
/** How long to wait for the lock of the file. */
const BUSY_MS = 5_000
/** The page size of libsql-server, which crashes on databases with any other. */
const PAGE_BYTES = 4_096

/**
 * Copies a snapshot of a database to a new file while the server has it open and writes continue. Never overwrites a file.
 */
export async function copyOpenDatabase(from: string, to: string): Promise<void> {
  // read-only: the last writer to close a file checkpoints its WAL, which must be left to the server
  await copyPages(from, to, { readOnly: true })
}

/**
 * Creates the file of a new database from any SQLite file, including its WAL or journal.
 * @throws BackendError for a file that libsql-server cannot open
 */
export async function importFile(from: string, to: string, temporaryFolder: string): Promise<void> {
  const folder = join(temporaryFolder, randomUUID())
  const stagedFile = join(folder, 'data')
  await mkdir(folder, { recursive: true })
  try {
    await copyDatabaseFile(from, stagedFile)
    await checkPageSize(stagedFile, from)
    // opened for writing, so that SQLite can roll back a journal
    await copyPages(stagedFile, to, { readOnly: false })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Checks that libsql-server can open a file. @param source the file that the message names @throws BackendError */
async function checkPageSize(path: string, source: string): Promise<void> {
  const file = await open(path)
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(2), 0, 2, 16)
    const size = bytesRead < 2 ? PAGE_BYTES : buffer.readUInt16BE()
    if (size !== PAGE_BYTES)
      throw new BackendError(
        `${source} has pages of ${size === 1 ? 65_536 : size} bytes, but libsql-server needs ${PAGE_BYTES}: ` +
          `run PRAGMA page_size = ${PAGE_BYTES} and VACUUM on a copy that is not in WAL mode`,
      )
  } finally {
    await file.close()
  }
}

async function copyPages(
  from: string,
  to: string,
  { readOnly }: { readonly readOnly: boolean },
): Promise<void> {
  await createFile(to)
  const { DatabaseSync, backup } = loadSqliteModule()
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
    await (await open(path, 'wx', 0o600)).close()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new Error(`${path} already exists`, { cause: error })
  }
}
