import { closeSync, openSync, readSync, statSync, writeSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { IN_USE_MARK, isMissing, loadSqliteModule, SQLITE_HEADER } from '@batonsql/server-common/base'

/*
 * The steps of `claimFile`, in this order:
 *
 * 1. Read the first 16 bytes, the magic bytes. A file that is already marked needs no other step: no program can open it.
 * 2. If there is a WAL, which another program has left behind, checkpoint it by locking and closing the database. This comes before
 *    step 4, because a checkpoint of the first page would overwrite the mark.
 * 3. Lock the file with SQLite's own locks. This fails if another program has the file open in WAL mode, or has a transaction open:
 *    that program would continue to write its own WAL or journal.
 * 4. Mark the file while it is locked, so that no program can open it between steps 3 and 4.
 * 5. Unlock it by closing the database. On POSIX systems, the locks are already released at the end of step 4: closing a descriptor of
 *    a file releases all locks that the process has on it. So nothing may be written after the mark.
 */

/** How long to wait for a transaction of another program. */
const MAX_WAIT_MS = 20
const SQLITE_BUSY = 5
/**
 * SQLITE_READONLY (a newer format), SQLITE_CORRUPT and SQLITE_NOTADB: SQLite cannot write the file, so it needs no lock.
 * Extended codes are not included: SQLITE_READONLY_DBMOVED, for example, means that the file was replaced.
 */
const UNWRITABLE_FILE_CODES = [8, 11, 26]
/** Offsets in the header of a database file, and the value of the write version in rollback mode. */
const WRITE_VERSION = 18
const ROLLBACK_JOURNAL = 1
const CHANGE_COUNTERS = [24, 92]
const HEADER_BYTES = 100

/** Thrown if a database file cannot be claimed or opened. The message contains no path. */
export class FileClaimError extends Error {}

/**
 * Marks a database file as open here, so that other programs cannot open it as a database. The mark may not be on disk yet.
 * @returns what was at the path: a database, which is now marked; one that was already marked; or no database
 * @throws FileClaimError if another program uses the file (see step 3), if it cannot be opened, or if its WAL cannot be checkpointed;
 * SQLite's error if it cannot be locked for another reason
 */
export function claimFile(path: string): 'database' | 'marked-database' | 'no-database' {
  const magic = withFile(path, readMagic)
  if (magic?.equals(IN_USE_MARK)) return 'marked-database'
  if (!magic?.equals(SQLITE_HEADER)) return 'no-database'
  if (getWalSize(path) !== null) checkpoint(path)
  runWhileLocked(path, () => mark(path))
  return 'database'
}

/**
 * Removes the mark, so that all programs can open the file again. After a power failure it may reappear.
 * @throws FileClaimError if the file cannot be opened
 */
export function unclaimFile(path: string): void {
  withFile(path, (file) => {
    if (readMagic(file).equals(IN_USE_MARK)) writeMagic(file, SQLITE_HEADER)
  })
}

/** Writes the WAL into the file. @throws FileClaimError if another program uses the file, or if changes remain in the WAL */
function checkpoint(path: string): void {
  runWhileLocked(path, () => {
    // SQLite checkpoints the WAL when it closes the database
  })
  // SQLite ignores an empty WAL, and removes it only if the database is in WAL mode
  if ((getWalSize(path) ?? 0) > 0)
    throw new FileClaimError('the WAL beside the database file cannot be checkpointed (is the disk full?)')
}

/** Returns the size of the WAL in bytes; null if there is no WAL. */
function getWalSize(path: string): number | null {
  return statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? null
}

/**
 * Runs `work` while no other program has the file open in WAL mode, or has a transaction open. If SQLite cannot write the file,
 * neither can another program, and `work` runs without a lock.
 */
function runWhileLocked(path: string, work: () => void): void {
  const options = { timeout: MAX_WAIT_MS, enableForeignKeyConstraints: false }
  const database = new (loadSqliteModule().DatabaseSync)(path, options)
  try {
    lock(database)
    work()
  } finally {
    database.close()
  }
}

function lock(database: DatabaseSync): void {
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE')
    database.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    const { errcode = 0 } = error as { errcode?: number }
    // the low byte is the code without details
    if (errcode % 256 === SQLITE_BUSY) throw new FileClaimError(IN_USE_MESSAGE)
    if (!UNWRITABLE_FILE_CODES.includes(errcode)) throw error
  }
}

const IN_USE_MESSAGE =
  'the database file is open in another program; requests are accepted again after that program has closed it'

/** Marks a locked file. Its locks may be released when this returns, so nothing may be written to it afterwards. */
function mark(path: string): void {
  withFile(path, (file) => {
    const header = Buffer.alloc(HEADER_BYTES)
    const isComplete = readSync(file, header, 0, HEADER_BYTES, 0) === HEADER_BYTES
    // in rollback mode, a program that has cached the first page reads it again only if the first counter has changed; the second must
    // equal it
    if (isComplete && header[WRITE_VERSION] === ROLLBACK_JOURNAL) {
      for (const offset of CHANGE_COUNTERS) {
        header.writeUInt32BE((header.readUInt32BE(offset) + 1) >>> 0, offset)
        writeSync(file, header, offset, 4, offset)
      }
    }
    writeMagic(file, IN_USE_MARK)
  })
}

/** Returns the magic bytes of a file, padded with zeros if the file is shorter. */
function readMagic(file: number): Buffer {
  const magic = Buffer.alloc(SQLITE_HEADER.length)
  readSync(file, magic, 0, magic.length, 0)
  return magic
}

function writeMagic(file: number, magic: Buffer): void {
  writeSync(file, magic, 0, magic.length, 0)
}

/** Runs `use` with an open file. @returns its result; undefined if the file does not exist @throws FileClaimError */
function withFile<T>(path: string, use: (file: number) => T): T | undefined {
  let file: number
  try {
    file = openSync(path, 'r+')
  } catch (error) {
    if (isMissing(error)) return undefined
    const { code } = error as NodeJS.ErrnoException
    throw new FileClaimError(`the database file cannot be opened: ${code}`, { cause: error })
  }
  try {
    return use(file)
  } finally {
    closeSync(file)
  }
}
