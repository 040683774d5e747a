import {
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { IN_USE_MARK, SQLITE_HEADER, syncFolder } from '@batonsql/server-common/base'
import { claimFile, unclaimFile } from './claim-file.ts'

/** Name by which the engine opens the database file. */
export const MAIN_FILE = '/main.db'
const WAL_FILE = `${MAIN_FILE}-wal`
/** Folder in which the engine finds copies of other databases. They are opened like other files; wasm/vfs.c rejects writes to them. */
const ATTACHED_PREFIX = '/attached/'
const ATTACHED_FOLDER = 'attached'

/** A copy of another database that the engine can open. */
export interface Attachment {
  /** Name by which the engine opens it. */
  readonly name: string
  /** Removes the copy; called when the session is closed. */
  remove(): void
}

const IO_ERROR = 1
const DISK_FULL = 2

/**
 * The files that the engine can access: the database and its two journals, under fixed names. SQL cannot name any other file on the
 * disk.
 *
 * The engine's locks are in its memory, where other programs cannot see them. To prevent other programs from changing the file or
 * removing its journal while it is open here, the file is marked and its WAL is renamed, so that SQLite does not recognize a database.
 * The mark is removed when the file is closed; after a crash or a power failure, when it is opened and closed again. A WAL that another
 * program has left is first checkpointed into the file, by SQLite.
 */
export class DatabaseFiles {
  readonly #paths = new Map<string, string>()
  readonly #descriptors = new Map<number, string>()

  readonly #isDurable: boolean
  #isMarkSynced = false
  /** Whether the names of all files are on disk. A killed process may have left files whose names are not. */
  #areNamesSynced = false
  #attachments = 0

  /**
   * @param path path of the database file; null for an engine without files. Its folder must contain no other database: copies of
   * attached databases in it, which a killed process may have left, are removed
   * @param isDurable whether to wait until writes are on disk
   * @throws FileClaimError if another program has the file open, or if the file cannot be opened or its WAL checkpointed; SQLite's
   * error if the file cannot be locked
   */
  constructor(path: string | null, isDurable = true) {
    this.#isDurable = isDurable
    if (path === null) return
    this.#paths.set(MAIN_FILE, path)
    this.#paths.set(`${MAIN_FILE}-journal`, `${path}-journal`)
    this.#paths.set(WAL_FILE, `${path}.wal`)
    const copies = join(dirname(path), ATTACHED_FOLDER)
    // a killed process may have left copies; rmSync is slow even for a folder that does not exist
    if (existsSync(copies)) rmSync(copies, { recursive: true })
    // no other program can have opened a marked file
    const isInterruptedRelease = claimFile(path) === 'marked-database' && existsSync(`${path}-wal`)
    if (isInterruptedRelease && !existsSync(`${path}.wal`)) renameSync(`${path}-wal`, `${path}.wal`)
  }

  /** Makes the file available to other programs again. Called when all connections are closed. */
  release(): void {
    const path = this.#paths.get(MAIN_FILE)
    if (path !== undefined) releaseFile(path)
  }

  /**
   * Creates a copy of another database, which `copy` writes to a path.
   * @throws the error of `copy`; what it has written is removed
   */
  async attach(copy: (path: string) => Promise<void>): Promise<Attachment> {
    this.#attachments += 1
    const file = `${this.#attachments}.db`
    const name = `${ATTACHED_PREFIX}${file}`
    const path = join(dirname(this.#paths.get(MAIN_FILE) ?? ''), ATTACHED_FOLDER, file)
    const suffixes = ['', '-wal', '-journal']
    const remove = (): void => {
      for (const suffix of suffixes) {
        this.#paths.delete(`${name}${suffix}`)
        rmSync(`${path}${suffix}`, { force: true })
      }
    }
    try {
      await copy(path)
    } catch (error) {
      attempt(remove) // an error of `remove` would hide this one
      throw error
    }
    for (const suffix of suffixes) this.#paths.set(`${name}${suffix}`, `${path}${suffix}`)
    return { name, remove }
  }

  /**
   * Copies the database, and the WAL with changes that are not in its file yet, in SQLite's format. Must not be interleaved with
   * operations of the engine.
   */
  copyTo(path: string): void {
    mkdirSync(dirname(path), { recursive: true })
    const main = this.#paths.get(MAIN_FILE) ?? ''
    const wal = this.#paths.get(WAL_FILE) ?? ''
    // shares the data with the original if the file system supports it
    copyFileSync(main, path, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    if (existsSync(wal)) copyFileSync(wal, `${path}-wal`, constants.COPYFILE_EXCL)
    unclaimFile(path)
  }

  /** Opens a file. @returns a descriptor; -1 if the file does not exist or may not be accessed */
  open(name: string, create: boolean): number {
    const path = this.#paths.get(name)
    if (path === undefined) return -1
    if (create && !existsSync(path)) this.#areNamesSynced = false
    const descriptor = openPath(path, create)
    if (descriptor >= 0) this.#descriptors.set(descriptor, name)
    return descriptor
  }

  close(descriptor: number): void {
    this.#descriptors.delete(descriptor)
    closeSync(descriptor)
  }

  /** Closes all open files, bypassing the engine. */
  closeAll(): void {
    for (const descriptor of this.#descriptors.keys()) this.close(descriptor)
  }

  /** Returns the number of bytes read, fewer at the end of the file; -1 for an error. */
  read(descriptor: number, into: Uint8Array, offset: number): number {
    try {
      let done = 0
      while (done < into.length) {
        const count = readSync(descriptor, into, done, into.length - done, offset + done)
        if (count === 0) break
        done += count
      }
      if (this.#includesMainHeader(descriptor, offset, done) && startsWith(into, IN_USE_MARK))
        into.set(SQLITE_HEADER)
      return done
    } catch {
      return -1
    }
  }

  /** Returns 0 if everything was written, 1 for an error, 2 if the disk is full. */
  write(descriptor: number, bytes: Uint8Array, offset: number): number {
    const mustMark =
      this.#includesMainHeader(descriptor, offset, bytes.length) && startsWith(bytes, SQLITE_HEADER)
    try {
      let done = mustMark ? writeSync(descriptor, IN_USE_MARK, 0, IN_USE_MARK.length, 0) : 0
      while (done < bytes.length)
        done += writeSync(descriptor, bytes, done, bytes.length - done, offset + done)
      return 0
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      return code === 'ENOSPC' || code === 'EDQUOT' ? DISK_FULL : IO_ERROR
    }
  }

  /** Returns 0, or 1 for an error, as do `sync` and `delete`. */
  truncate(descriptor: number, sizeBytes: number): number {
    return attempt(() => ftruncateSync(descriptor, sizeBytes))
  }

  sync(descriptor: number): number {
    if (!this.#isDurable) return 0
    return attempt(() => {
      if (!this.#isMarkSynced) this.#syncMark()
      fsyncSync(descriptor)
      if (this.#areNamesSynced) return
      // the folder may be new, too
      const folder = dirname(this.#paths.get(MAIN_FILE) ?? '')
      for (const path of [folder, dirname(folder)]) syncFolder(path)
      // only now, so that the next attempt synchronizes the folders if this one has failed
      this.#areNamesSynced = true
    })
  }

  /** Returns the size in bytes; -1 for an error. */
  size(descriptor: number): number {
    try {
      return fstatSync(descriptor).size
    } catch {
      return -1
    }
  }

  delete(name: string): number {
    const path = this.#paths.get(name)
    return path === undefined ? IO_ERROR : attempt(() => rmSync(path, { force: true }))
  }

  exists(name: string): boolean {
    const path = this.#paths.get(name)
    return path !== undefined && existsSync(path)
  }

  /** Waits until the mark is on disk. It must be there before the WAL is, because other programs would not read the WAL. */
  #syncMark(): void {
    for (const [descriptor, name] of this.#descriptors) {
      if (name !== MAIN_FILE) continue
      fsyncSync(descriptor)
      this.#isMarkSynced = true
      return
    }
  }

  #includesMainHeader(descriptor: number, offset: number, sizeBytes: number): boolean {
    return (
      offset === 0 && sizeBytes >= SQLITE_HEADER.length && this.#descriptors.get(descriptor) === MAIN_FILE
    )
  }
}

/** Makes the file of a closed database, or of one that a killed process has left open, available to other programs. */
export function releaseFile(path: string): void {
  // the WAL could not be checkpointed, for example because the disk is full
  if (existsSync(`${path}.wal`)) renameSync(`${path}.wal`, `${path}-wal`)
  unclaimFile(path)
}

function openPath(path: string, create: boolean): number {
  try {
    return openSync(path, 'r+')
  } catch (error) {
    if (!create || (error as NodeJS.ErrnoException).code !== 'ENOENT') return -1
  }
  try {
    return openSync(path, 'wx+', 0o600)
  } catch {
    return -1
  }
}

function startsWith(bytes: Uint8Array, head: Buffer): boolean {
  return head.equals(bytes.subarray(0, head.length))
}

function attempt(run: () => void): number {
  try {
    run()
    return 0
  } catch {
    return IO_ERROR
  }
}
