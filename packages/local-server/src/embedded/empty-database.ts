import { mkdir, open, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasDatabaseFile } from '../backend/database-file.ts'

/** Says of a directory that each of its databases has a file. Older versions made it with the first request. */
const MARK = 'every-database-has-a-file'
const PAGE_BYTES = 4096
const HEADER_BYTES = 100

/** Gives a new database a file, unless it has one: from then on a missing file is a lost one. */
export async function ensureDatabaseFile(path: string, isKept: boolean): Promise<void> {
  if (await hasDatabaseFile(path)) return
  const file = await open(path, 'w', 0o600)
  try {
    await file.writeFile(emptyDatabase())
    if (isKept) await file.sync()
  } finally {
    await file.close()
  }
}

/** Does the same for the databases of a directory that an older version has made. */
export async function completeDirectory(directory: string, isKept: boolean): Promise<void> {
  await mkdir(directory, { recursive: true })
  const entries = await readdir(directory, { withFileTypes: true })
  if (entries.some(({ name }) => name === MARK)) return
  for (const entry of entries.filter((each) => each.isDirectory() && /^[0-9a-f-]{36}$/.test(each.name)))
    await ensureDatabaseFile(join(directory, entry.name, 'data.db'), isKept)
  await writeFile(join(directory, MARK), '')
}

/** A database without tables, with a write-ahead log, as the engine makes it. */
function emptyDatabase(): Buffer {
  const page = Buffer.alloc(PAGE_BYTES)
  page.write('SQLite format 3\0', 'latin1')
  page.writeUInt16BE(PAGE_BYTES, 16)
  // versions for reading and writing: with a write-ahead log; then three fixed fractions
  page.set([2, 2, 0, 64, 32, 32], 18)
  // changes so far, pages, and the same number of changes for which the pages are right
  for (const at of [24, 28, 92]) page.writeUInt32BE(1, at)
  // UTF-8
  page.writeUInt32BE(1, 56)
  // the root of the schema: a leaf without cells, whose content would begin at the end of the page
  page[HEADER_BYTES] = 0x0d
  page.writeUInt16BE(PAGE_BYTES, HEADER_BYTES + 5)
  return page
}
