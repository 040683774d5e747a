import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { isMissing } from './is-missing.ts'
import { getProcessIdentity } from './process-identity.ts'
import { loadSqliteModule } from './sqlite-module.ts'

/** The empty file that is locked. It is never removed, because a new file with that name would be a different lock. */
const LOCK_FILE = 'baton.lock.db'
/** Describes the owner of the lock, in readable form. */
const OWNER_FILE = 'baton.lock'
/** How long servers that start at the same time wait for each other. */
const LOCK_WAIT_MS = 200
const CHECK_INTERVAL_MS = 1_000
const SQLITE_BUSY = 5

interface Owner {
  readonly pid: number
  readonly host: string
  /** Distinguishes a process from a later one with the same id; see `getProcessIdentity`. */
  readonly identity: string | null
}

/**
 * Prevents two servers from using the same data directory, which would silently lose data. Uses the operating system's file
 * lock, like SQLite itself: it also applies to processes in other containers that share the directory, and is released when the
 * process ends for any reason.
 */
export class DirectoryLock implements AsyncDisposable {
  readonly #directory: string
  readonly #onLost: (error: Error) => void
  #lock: HeldLock
  readonly #timer: NodeJS.Timeout
  #isLost = false

  private constructor(directory: string, lock: HeldLock, onLost: (error: Error) => void) {
    this.#directory = directory
    this.#lock = lock
    this.#onLost = onLost
    // one check at a time: a slow check would mistake its own new file for another server's
    let checking: Promise<void> | null = null
    this.#timer = setInterval(() => {
      checking ??= this.#check().finally(() => {
        checking = null
      })
    }, CHECK_INTERVAL_MS).unref()
  }

  /**
   * Locks a directory. Rejects if another server uses it, or if it is not writable.
   * @param onLost called if the lock was removed and another server has locked the directory: this server must no longer write to it
   */
  static async acquire(
    directory: string,
    onLost: (error: Error) => void = (error) => process.emitWarning(error),
  ): Promise<DirectoryLock> {
    await prepareDirectory(directory)
    try {
      return new DirectoryLock(directory, await acquireLock(directory), onLost)
    } catch (error) {
      if (!isBusy(error))
        throw new Error(`the directory ${directory} cannot be locked: ${(error as Error).message}`, {
          cause: error,
        })
      throw new Error(`the directory ${directory} is in use by ${await readOwner(directory)}`, {
        cause: error,
      })
    }
  }

  /** Whether another server has locked the directory. */
  get isLost(): boolean {
    return this.#isLost
  }

  async release(): Promise<void> {
    clearInterval(this.#timer)
    const { database } = this.#lock
    if (!database.isOpen) return
    if (!this.#isLost) await rm(join(this.#directory, OWNER_FILE), { force: true })
    database.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  /** Recreates and locks the file if it was removed. If another server locked it first, this one must no longer write. */
  async #check(): Promise<void> {
    const { database, file, note } = this.#lock
    // a file that cannot be examined now is examined by the next check
    const currentFile = await getFileIdentity(join(this.#directory, LOCK_FILE)).catch(() => file)
    const storedNote = await readFile(join(this.#directory, OWNER_FILE), 'utf8').catch(() => '')
    if (!database.isOpen) return
    if (currentFile === null) {
      const lock = await acquireLock(this.#directory).catch((error: unknown) =>
        isBusy(error) ? 'lost' : null,
      )
      if (lock === 'lost') return this.#lose()
      if (lock === null) return // the directory was removed
      if (!database.isOpen) return lock.database.close() // released meanwhile
      this.#lock = lock
      database.close()
    } else if (currentFile !== file || (storedNote !== '' && storedNote !== note)) this.#lose()
  }

  #lose(): void {
    clearInterval(this.#timer)
    this.#isLost = true
    this.#onLost(
      new Error(
        `another server is using the directory ${this.#directory}, because this server's lock was removed`,
      ),
    )
  }
}

/** A held lock. The identity of its file and the owner note show whether it is still held. */
interface HeldLock {
  readonly database: DatabaseSync
  readonly file: string | null
  readonly note: string
}

/** Acquires the lock. @throws Error with `errcode` of SQLITE_BUSY if another process holds it */
async function acquireLock(directory: string): Promise<HeldLock> {
  const path = join(directory, LOCK_FILE)
  const database = new (loadSqliteModule().DatabaseSync)(path, { timeout: LOCK_WAIT_MS })
  try {
    // nothing is ever written, so nothing has to be rolled back
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
    // on POSIX, a process that merely opens and closes the file loses its lock, so the owner file is checked too
    if (await isHeldByOwner(directory))
      throw Object.assign(new Error('its owner is still running'), { errcode: SQLITE_BUSY })
    const identity = await getProcessIdentity(process.pid)
    const owner: Owner = { pid: process.pid, host: hostname(), identity }
    const note = JSON.stringify(owner)
    await writeNote(join(directory, OWNER_FILE), note)
    return { database, file: await getFileIdentity(path), note }
  } catch (error) {
    database.close()
    throw error
  }
}

/** Writes the owner note. If that fails, the file is removed. */
async function writeNote(path: string, note: string): Promise<void> {
  try {
    await writeFile(path, note)
  } catch (error) {
    await rm(path, { force: true }).catch(() => {})
    throw new Error(`${path} cannot be written: ${(error as Error).message}`, { cause: error })
  }
}

const isBusy = (error: unknown): boolean => (error as { errcode?: number }).errcode === SQLITE_BUSY

/** Returns the identity of the file at a path; null if it does not exist. */
async function getFileIdentity(path: string): Promise<string | null> {
  try {
    const { dev, ino } = await stat(path, { bigint: true })
    return `${dev} ${ino}`
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

async function readNote(directory: string): Promise<Partial<Owner>> {
  return JSON.parse(await readFile(join(directory, OWNER_FILE), 'utf8')) as Partial<Owner>
}

/** Whether the owner file names another running process on this machine whose id is visible here. */
async function isHeldByOwner(directory: string): Promise<boolean> {
  const { pid, host, identity } = await readNote(directory).catch((): Partial<Owner> => ({}))
  if (pid === undefined || pid === process.pid || host !== hostname() || typeof identity !== 'string')
    return false
  return (await getProcessIdentity(pid)) === identity
}

async function readOwner(directory: string): Promise<string> {
  try {
    const { pid, host } = await readNote(directory)
    const hostSuffix = host === undefined || host === hostname() ? '' : ` on ${host}`
    if (typeof pid === 'number') return `process ${pid}${hostSuffix}`
  } catch {
    // the file is being written
  }
  return 'another process'
}

async function prepareDirectory(directory: string): Promise<void> {
  const probe = join(directory, `${OWNER_FILE}.${randomUUID()}.new`)
  try {
    await makeDirectory(resolve(directory))
    await writeFile(probe, '')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`the directory ${directory} cannot be written: ${reason}`, { cause: error })
  } finally {
    await rm(probe, { force: true }).catch(() => {})
  }
}

/** Replaces `mkdir` with `recursive`, which hangs where no directory can be created, such as in `/proc`. */
async function makeDirectory(path: string): Promise<void> {
  if (existsSync(path)) return
  const parent = dirname(path)
  if (parent !== path) await makeDirectory(parent)
  await mkdir(path).catch((error: NodeJS.ErrnoException) => {
    // another process created it first
    if (error.code !== 'EEXIST') throw error
  })
}
