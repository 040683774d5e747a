import { mkdir, open, readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { hasDatabaseFile } from '@batonsql/server-common/backend'
import { isUuid, SQLITE_HEADER, syncFolder } from '@batonsql/server-common/base'

/**
 * File that marks a directory in which every database has a file. Older versions created the file of a database on its first
 * request.
 */
const MARKER_FILE = 'every-database-has-a-file'
/** Name of a database's file in its folder, which is named for its id. */
export const DATABASE_FILE = 'data.db'
const PAGE_BYTES = 4_096
const HEADER_BYTES = 100

/**
 * Creates the file of a new database, unless a fork or an import has already written it, and waits until it is on disk: afterwards, a
 * missing file means that it was lost.
 */
export async function ensureDatabaseFile(path: string, isDurable: boolean): Promise<void> {
  const exists = hasDatabaseFile(path)
  if (exists && !isDurable) return
  const file = await open(path, exists ? 'r+' : 'w', 0o600)
  try {
    if (!exists) await file.writeFile(createEmptyDatabase())
    if (isDurable) await file.sync()
  } finally {
    await file.close()
  }
  const folder = dirname(path)
  if (isDurable) for (const directory of [folder, dirname(folder)]) syncFolder(directory)
}

/** Creates the directory if it is missing, and the files of databases that an older version has not created yet. */
export async function completeDirectory(directory: string, isDurable: boolean): Promise<void> {
  await mkdir(directory, { recursive: true })
  const entries = await readdir(directory, { withFileTypes: true })
  if (entries.some(({ name }) => name === MARKER_FILE)) return
  const folders = entries.filter((entry) => entry.isDirectory() && isUuid(entry.name))
  for (const { name } of folders) await ensureDatabaseFile(join(directory, name, DATABASE_FILE), isDurable)
  await writeFile(join(directory, MARKER_FILE), '')
}

/** Returns a database without tables in WAL mode, as the engine creates it. */
function createEmptyDatabase(): Buffer {
  const page = Buffer.alloc(PAGE_BYTES)
  page.set(SQLITE_HEADER)
  page.writeUInt16BE(PAGE_BYTES, 16)
  // read and write version for WAL mode, followed by three fixed fractions
  page.set([2, 2, 0, 64, 32, 32], 18)
  // change counter, number of pages, and the change counter for which that number is valid
  for (const offset of [24, 28, 92]) page.writeUInt32BE(1, offset)
  // UTF-8
  page.writeUInt32BE(1, 56)
  // root page of the schema: a leaf without cells, whose content area begins at the end of the page
  page[HEADER_BYTES] = 0x0d
  page.writeUInt16BE(PAGE_BYTES, HEADER_BYTES + 5)
  return page
}
