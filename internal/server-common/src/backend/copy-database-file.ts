import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  openSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { copyFile, rm } from 'node:fs/promises'
import { IN_USE_MARK, SQLITE_HEADER } from '../base/sqlite-header.ts'

/** A file below this size is copied or removed within a millisecond, which is about as long as passing the call to another thread. */
export const SMALL_FILE_BYTES = 1_048_576

/**
 * Copies an SQLite file that no other program is writing to, including its journals. An empty file counts as an empty database.
 * Never overwrites a file.
 */
export async function copyDatabaseFile(from: string, to: string): Promise<void> {
  checkHeader(from)
  // for a symbolic link, SQLite keeps the journals beside the file that it points to
  const file = realpathSync(from)
  const copiedPaths: string[] = []
  try {
    for (const suffix of ['', '-wal', '-journal']) {
      if (suffix !== '' && !existsSync(`${file}${suffix}`)) continue
      await copy(`${file}${suffix}`, `${to}${suffix}`)
      copiedPaths.push(`${to}${suffix}`)
    }
  } catch (error) {
    for (const path of copiedPaths) await rm(path, { force: true })
    throw error
  }
}

async function copy(from: string, to: string): Promise<void> {
  try {
    const isSmall = statSync(from).size < SMALL_FILE_BYTES
    if (isSmall) copyFileSync(from, to, constants.COPYFILE_EXCL)
    else await copyFile(from, to, constants.COPYFILE_EXCL)
    // the original may be read-only
    chmodSync(to, 0o600)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') throw new Error(`${to} already exists`, { cause: error })
    throw new Error(`${from} could not be copied to ${to}: ${(error as Error).message}`, { cause: error })
  }
}

function checkHeader(path: string): void {
  const head = readHead(path)
  if (head.equals(IN_USE_MARK)) throw new Error(`${path} is in use by a local server; stop it first`)
  if (head.length > 0 && !head.equals(SQLITE_HEADER)) throw new Error(`${path} is not an SQLite database`)
}

/**
 * Returns the magic bytes of a file, or the whole file if it is shorter. Reads synchronously, because passing calls to another
 * thread takes longer than the calls themselves.
 */
function readHead(path: string): Buffer {
  const head = Buffer.alloc(SQLITE_HEADER.length)
  try {
    const file = openSync(path, 'r')
    try {
      return head.subarray(0, readSync(file, head, 0, head.length, 0))
    } finally {
      closeSync(file)
    }
  } catch (cause) {
    throw new Error(`${path} cannot be read: ${(cause as Error).message}`, { cause })
  }
}
