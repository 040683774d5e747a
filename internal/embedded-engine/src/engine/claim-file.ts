import { closeSync, existsSync, openSync, readSync, writeSync } from 'node:fs'
import { IN_USE_MARK, isMissing, loadSqliteModule, SQLITE_HEADER } from '@batonsql/server-common/base'

/** How long to wait for a transaction of another program. */
const MAX_WAIT_MS = 20
const SQLITE_BUSY = 5
/** SQLITE_READONLY (a newer format), SQLITE_CORRUPT and SQLITE_NOTADB: SQLite cannot write the file, so it needs no lock. */
const UNWRITABLE_FILE_CODES = [8, 11, 26]
/** Offsets in the header of a database file, and the value of the write version in rollback mode. */
const WRITE_VERSION = 18
const ROLLBACK_JOURNAL = 1
const CHANGE_COUNTERS = [24, 92]
const HEADER_BYTES = 100

/** Thrown if another program has the database file open, or if the file cannot be opened. The message contains no path. */
export class FileClaimError extends Error {}

/**
 * Marks a database file as open here, so that other programs cannot open it as a database. The file is marked while it is
 * locked with SQLite's own locks. This detects a program that has the file open and would continue to write its own WAL, and
 * checkpoints a WAL that a program has left behind. The mark may not be on disk yet.
 * @returns what was at the path: a database, which is now marked; one that was already marked; or no database
 * @throws FileClaimError if another program has the file open, or if it cannot be opened
 */
export function claimFile(path: string): 'database' | 'marked-database' | 'no-database' {
  const head = withFile(path, readHead)
  if (head?.equals(IN_USE_MARK)) return 'marked-database'
  if (!head?.equals(SQLITE_HEADER)) return 'no-database'
  // the WAL is checkpointed when the locked database is closed: before the mark, which a checkpoint could overwrite
  if (existsSync(`${path}-wal`)) {
    runWhileLocked(path, () => {})
    // for example because the disk is full
    if (existsSync(`${path}-wal`)) throw new Error(`${path}-wal cannot be checkpointed`)
  }
  runWhileLocked(path, () => mark(path))
  return 'database'
}

/**
 * Removes the mark, so that all programs can open the file again. After a power failure it may reappear.
 * @throws FileClaimError if the file cannot be opened
 */
export function unclaimFile(path: string): void {
  withFile(path, (file) => {
    if (readHead(file).equals(IN_USE_MARK)) writeHead(file, SQLITE_HEADER)
  })
}

/** Runs `work` while no other program can have the file open. */
function runWhileLocked(path: string, work: () => void): void {
  const options = { timeout: MAX_WAIT_MS, enableForeignKeyConstraints: false }
  const database = new (loadSqliteModule().DatabaseSync)(path, options)
  try {
    try {
      database.exec('PRAGMA locking_mode = EXCLUSIVE')
      database.exec('BEGIN EXCLUSIVE')
    } catch (error) {
      const { errcode = 0 } = error as { errcode?: number }
      // the low byte is the code without details
      if (errcode % 256 === SQLITE_BUSY) throw new FileClaimError(IN_USE_MESSAGE)
      if (!UNWRITABLE_FILE_CODES.includes(errcode)) throw error
    }
    work()
  } finally {
    database.close()
  }
}

const IN_USE_MESSAGE =
  'the database file is open in another program; requests are accepted again after that program has closed it'

/**
 * Marks a locked file. On POSIX systems, closing a descriptor of a file releases all locks that the process has on it, including
 * those of SQLite, so nothing else may be written afterwards.
 */
function mark(path: string): void {
  withFile(path, (file) => {
    const header = Buffer.alloc(HEADER_BYTES)
    const isComplete = readSync(file, header, 0, HEADER_BYTES, 0) === HEADER_BYTES
    // in rollback mode, a program that has cached the first page reads it again only if these counters have changed
    if (isComplete && header[WRITE_VERSION] === ROLLBACK_JOURNAL) {
      for (const offset of CHANGE_COUNTERS) {
        header.writeUInt32BE((header.readUInt32BE(offset) + 1) >>> 0, offset)
        writeSync(file, header, offset, 4, offset)
      }
    }
    writeHead(file, IN_USE_MARK)
  })
}

/** Returns the beginning of a file; zeros if it is shorter. */
function readHead(file: number): Buffer {
  const head = Buffer.alloc(SQLITE_HEADER.length)
  readSync(file, head, 0, head.length, 0)
  return head
}

function writeHead(file: number, head: Buffer): void {
  writeSync(file, head, 0, head.length, 0)
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
