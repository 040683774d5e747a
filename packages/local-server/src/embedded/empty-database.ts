import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { hasDatabaseFile } from '@batonsql/server-common/backend'
import { SQLITE_HEADER, syncFolder } from '@batonsql/server-common/base'

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
