import { closeSync, existsSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { loadSqliteModule } from '@batonsql/server-common/base'

/** The beginning of a database file. */
export const MAGIC = Buffer.from('SQLite format 3\0')
/** The beginning of a database file that this server has open. */
export const IN_USE_MARK = Buffer.from('in use by Baton\0')

/** How long to wait for a transaction of another program. */
const MAX_WAIT_MS = 20
const SQLITE_BUSY = 5
/** Offsets in the header of a database file, and the value of the write version in rollback mode. */
const WRITE_VERSION = 18
const ROLLBACK_JOURNAL = 1
const CHANGE_COUNTERS = [24, 92]
const HEADER_BYTES = 100

/** Thrown if another program has the database file open. */
export class FileInUseError extends Error {}

/**
 * Marks a database file as open here, so that other programs cannot open it as a database. The file is marked while it is
 * locked with SQLite's own locks. This detects a program that has the file open and would continue to write its own WAL, and
 * checkpoints a WAL that a program has left behind. The mark may not be on disk yet (see {@link syncMark}).
 * @returns false if it is already marked
 * @throws FileInUseError if another program has the file open
 */
export function claimFile(path: string): boolean {
  const head = withFile(path, readHead)
  if (head?.equals(IN_USE_MARK)) return false
  if (!head?.equals(MAGIC)) return true // missing, or not a database
  // unlocking checkpoints the WAL, which may write the beginning of the file
  if (existsSync(`${path}-wal`)) {
    runWhileLocked(path, () => {})
    // for example because the disk is full
    if (existsSync(`${path}-wal`)) throw new Error(`${path}-wal cannot be checkpointed`)
  }
  runWhileLocked(path, () => mark(path))
  return true
}

/** Removes the mark, so that all programs can open the file again. After a power failure it may reappear. */
export function unclaimFile(path: string): void {
  withFile(path, (file) => {
    if (readHead(file).equals(IN_USE_MARK)) writeHead(file, MAGIC)
  })
}

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

/** Runs `work` while no other program can have the file open. */
function runWhileLocked(path: string, work: () => void): void {
  const options = { timeout: MAX_WAIT_MS, enableForeignKeyConstraints: false }
  const database = new (loadSqliteModule().DatabaseSync)(path, options)
  try {
    try {
      database.exec('PRAGMA locking_mode = EXCLUSIVE')
      database.exec('BEGIN EXCLUSIVE')
    } catch (error) {
      if (((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_BUSY)
        throw new FileInUseError(IN_USE_MESSAGE)
      // if the file is so damaged that SQLite cannot read it, no program can use it
      if (existsSync(`${path}-wal`)) throw error
    }
    work()
  } finally {
    database.close()
  }
}

const IN_USE_MESSAGE =
  'the database file is open in another program; requests are accepted again after that program has closed it'

/** Returns the beginning of a file; zeros if it is shorter. */
function readHead(file: number): Buffer {
  const head = Buffer.alloc(MAGIC.length)
  readSync(file, head, 0, head.length, 0)
  return head
}

/** Waits until the mark of a file is on disk. */
export function syncMark(path: string): void {
  withFile(path, fsyncSync)
}

function writeHead(file: number, head: Buffer): void {
  writeSync(file, head, 0, head.length, 0)
}

/** Returns undefined if the file cannot be opened. */
function withFile<T>(path: string, use: (file: number) => T): T | undefined {
  let file: number
  try {
    file = openSync(path, 'r+')
  } catch {
    return undefined
  }
  try {
    return use(file)
  } finally {
    closeSync(file)
  }
}
