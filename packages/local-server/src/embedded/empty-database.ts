import { mkdir, open, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasDatabaseFile } from '@batonsql/server-common/backend'
import { SQLITE_HEADER } from '@batonsql/server-common/base'

/**
 * File that marks a directory in which every database has a file. Older versions created the file of a database on its first
 * request.
 */
const MARKER_FILE = 'every-database-has-a-file'
const PAGE_BYTES = 4096
const HEADER_BYTES = 100

/**
 * Creates the file of a new database, unless it exists as a copy, and waits until it is on disk: afterwards, a missing file means that
 * it was lost.
 */
export async function ensureDatabaseFile(path: string, isDurable: boolean): Promise<void> {
  const isCopy = hasDatabaseFile(path)
  if (isCopy && !isDurable) return
  const file = await open(path, isCopy ? 'r+' : 'w', 0o600)
  try {
    if (!isCopy) await file.writeFile(createEmptyDatabase())
    if (isDurable) await file.sync()
  } finally {
    await file.close()
  }
}

/** Creates the missing files of the databases in a directory from an older version. */
export async function completeDirectory(directory: string, isDurable: boolean): Promise<void> {
  await mkdir(directory, { recursive: true })
  const entries = await readdir(directory, { withFileTypes: true })
  if (entries.some(({ name }) => name === MARKER_FILE)) return
  for (const entry of entries.filter(
    (candidate) => candidate.isDirectory() && /^[0-9a-f-]{36}$/.test(candidate.name),
  ))
    await ensureDatabaseFile(join(directory, entry.name, 'data.db'), isDurable)
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
