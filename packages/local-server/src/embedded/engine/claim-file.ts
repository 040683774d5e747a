import { closeSync, existsSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { sqliteModule } from '../../base/sqlite-module.ts'

/** What a database file begins with. */
export const MAGIC = Buffer.from('SQLite format 3\0')
/** What it begins with while it is open here. */
export const IN_USE = Buffer.from('in use by Baton\0')

/** How long another program's transaction is waited for. */
const MAX_WAIT_MS = 20
const BUSY = 5
/** Where the header says that there is no write-ahead log, and how often the file was changed. */
const WRITE_VERSION = 18
const ROLLBACK_JOURNAL = 1
const CHANGE_COUNTERS = [24, 92]
const HEADER_BYTES = 100

/** Another program has the database file open. */
export class FileInUseError extends Error {}

/**
 * Marks a database file as open here. Programs that open it from now on find no database in it. One that has it open
 * already would go on with its own log: so the file is locked as SQLite does it while it is marked, which shows whether
 * there is one, and moves a log that a program has left into the file.
 * @returns false when it is marked already
 * @throws FileInUseError while another program has the file open
 */
export function claimFile(path: string): boolean {
  if (beginsWith(path, IN_USE)) return false
  if (!beginsWith(path, MAGIC)) return true // it is not there yet, or is no database
  // its end moves the log, and that may write the beginning of the file
  if (existsSync(`${path}-wal`)) whileLocked(path, () => {})
  whileLocked(path, () => mark(path))
  return true
}

/** Takes the mark away: the file is one for every program again. */
export function unclaimFile(path: string): void {
  if (beginsWith(path, IN_USE)) withFile(path, (file) => writeHead(file, MAGIC))
}

function mark(path: string): void {
  withFile(path, (file) => {
    const header = Buffer.alloc(HEADER_BYTES)
    const isWhole = readSync(file, header, 0, HEADER_BYTES, 0) === HEADER_BYTES
    // without a log a program that has read the beginning looks at it again only when these have changed
    if (isWhole && header[WRITE_VERSION] === ROLLBACK_JOURNAL) {
      for (const at of CHANGE_COUNTERS) {
        header.writeUInt32BE((header.readUInt32BE(at) + 1) >>> 0, at)
        writeSync(file, header, at, 4, at)
      }
    }
    writeHead(file, IN_USE)
  })
}

/** Does something while no other program can have the file open. */
function whileLocked(path: string, work: () => void): void {
  const options = { timeout: MAX_WAIT_MS, enableForeignKeyConstraints: false }
  const database = new (sqliteModule().DatabaseSync)(path, options)
  try {
    try {
      database.exec('PRAGMA locking_mode = EXCLUSIVE')
      database.exec('BEGIN EXCLUSIVE')
    } catch (error) {
      if (((error as { errcode?: number }).errcode ?? 0) % 256 === BUSY)
        throw new FileInUseError(IN_USE_ELSEWHERE)
      // no program can use a file that is damaged so that SQLite reads nothing of it
      if (existsSync(`${path}-wal`)) throw error
    }
    work()
  } finally {
    database.close()
  }
}

const IN_USE_ELSEWHERE =
  'the database file is open in another program; its requests are answered again when that has closed it'

function beginsWith(path: string, head: Buffer): boolean {
  return (
    withFile(path, (file) => {
      const found = Buffer.alloc(head.length)
      return readSync(file, found, 0, found.length, 0) === found.length && found.equals(head)
    }) ?? false
  )
}

function writeHead(file: number, head: Buffer): void {
  writeSync(file, head, 0, head.length, 0)
  fsyncSync(file)
}

/** Undefined when the file cannot be opened. */
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
